/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Model checks of Umbra's protocols with Relacy (https://github.com/dvyukov/relacy). The text of
 * the headers is compiled as C++ on atomics that Relacy simulates under the C++11 memory model. It
 * is run again and again, with other interleavings and other values for each weak load.
 *
 *     model_NAME [--trace] [unmodified]         NAME: prefetch, park, slot, event, ...
 *     mutations_NAME [--trace] [MUTATION]...
 *
 * The text as it ships must pass every scenario under every search. A mutation (NAME.mutations, and
 * the script `mutate`) must fail in one of them, and in the way it is expected to. The mutations are
 * a program of their own, because they take several times as long to compile.
 *
 * How to read a failure. Relacy prints the execution that failed twice: all events in their order,
 * then by thread. An event names thread, function, file and line of the header, what was read or
 * written, with which order; "[NOT CURRENT]" marks a load that returned an old value, which is
 * where a missing order shows. The last event is the verdict:
 *   DEADLOCK          all threads left sleep: a lost wake-up. Look for the sleeper's announcement
 *                     (store of 1 to parked) and the signaller's load of parked that missed it.
 *   DATA RACE, ACCESS TO UNINITIALIZED VARIABLE
 *                     two threads touched a plain variable, and nothing orders them
 *   USER ASSERT FAILED, ACCESS TO FREED MEMORY, LIVELOCK
 *                     as the scenario says; livelock: more than 2000 steps
 * The same execution comes back when the program is run again. `--trace` shows it for a mutation.
 *
 * Simulated are um_atomic_* and um_plain_* (Relacy's atomic and var), the futex, and the deadline,
 * which may pass at any moment. Not simulated are the monitor instructions (to a waiter they are a
 * look that happens early or late). Relacy knows only the last three values of a word.
 */
#ifndef UMBRA_TESTS_MODEL_CHECKER_HPP
#define UMBRA_TESTS_MODEL_CHECKER_HPP

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <type_traits>

#include <relacy/base.hpp>

/*
 * In the place of Relacy's own generator (random.hpp), whose numbers are so regular that it met
 * some frequent interleavings only after tens of thousands of executions. This is splitmix64.
 */
#define RL_RANDOM_HPP
namespace rl {
struct random_generator {
    uint64_t state;

    void seed(iteration_t iteration)
    {
        state = iteration;
        rand();
    }

    unsigned rand()
    {
        uint64_t z = state += 0x9e3779b97f4a7c15;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return (unsigned)(z >> 33);
    }
};
} // namespace rl

#include <relacy/relacy.hpp>

#define UM_MODEL_CHECK
#define UMBRA_IMPLEMENTATION
#define UM_INLINE static inline
#define UM_LINKONCE static
#define UM_COLD
#define UM_NOINLINE
#define UM_LIKELY(x) (x)
#define UM_UNLIKELY(x) (x)
#define UM_ALIGNED(bytes) /* um_place() sees to it */
#define UMBRA_NEVER UINT64_MAX

/* The texts of errors are no part of a protocol. */
#define um_why(error, ...) (error)
#define um_why_none(result) (result)
#define um_why_begin() ((void)0)

typedef rl::atomic<uint32_t> um_atomic_u32;
typedef rl::atomic<uint64_t> um_atomic_u64;
typedef rl::atomic<uintptr_t> um_atomic_uptr;

#define um_atomic_load(p, order) um_model_load((p), rl::mo_##order, $)
#define um_atomic_store(p, value, order) ((p)->store((value), rl::mo_##order, $))
#define um_atomic_exchange(p, value, order) ((p)->exchange((value), rl::mo_##order, $))
#define um_atomic_fetch_add(p, value, order) ((p)->fetch_add((value), rl::mo_##order, $))
#define um_atomic_fetch_or(p, value, order) ((p)->fetch_or((value), rl::mo_##order, $))
#define um_atomic_fetch_and(p, value, order) ((p)->fetch_and((value), rl::mo_##order, $))
#define um_atomic_cas(p, expected, value, order, failed)                                           \
    um_model_cas((p), (expected), (value), rl::mo_##order, rl::mo_##failed, $)

/* Set by a scenario that wants loads to return the newest value, so that time orders calls. */
inline bool um_model_newest;

/* Told of each compare-and-swap that succeeded; set by a scenario. */
inline void (*um_model_changed)(const void *word, uint64_t before, uint64_t after);

template <class T>
static T um_model_load(const rl::atomic<T> *p, rl::memory_order order, rl::debug_info_param info)
{
    if (um_model_newest) /* a read-modify-write reads the newest value */
        return const_cast<rl::atomic<T> *>(p)->fetch_add(0, order, info);
    return p->load(order, info);
}

template <class T>
static bool um_model_cas(rl::atomic<T> *p, T *expected, std::enable_if_t<true, T> value,
                         rl::memory_order order, rl::memory_order failed, rl::debug_info_param info)
{
    T before = *expected;
    bool done = p->compare_exchange_strong(*expected, value, order, info, failed, info);

    if (done && um_model_changed)
        um_model_changed(p, before, value);
    return done;
}

#define um_plain(type) rl::var<type>
#define um_plain_read(variable) ((variable)($).load())
#define um_plain_write(variable, value) ((variable)($).store(value))

/* ---- the kernel ---- */

#define UM_THREADS_MOST 5
#define UM_SPURIOUS_MOST 1 /* in one execution: without a limit a full search has no end */

#define UM_OS_AT_FUTEX 1u
#define UM_OS_AT_BELL 2u

/* An io_uring of one thread, or its epoll instance. */
struct um_kernel_ring {
    const um_atomic_u32 *watches; /* FUTEX_WAIT is under way as an operation of the ring; or NULL */
    bool watch_done; /* it has completed, or the bell was written; that was not taken */
    int others_done; /* completions of other operations that were not taken */
    int sleeper;     /* 1 more than the thread that sleeps in the ring; 0: none */
};

/* Which thread sleeps on which word, in the present execution. */
struct um_kernel {
    const um_atomic_u32 *sleeps_on[UM_THREADS_MOST];
    int spurious_left;
    um_kernel_ring ring;
};

inline um_kernel um_kernel_now;

/*
 * Compares and falls asleep in one step, as the kernel does under its lock. It looks at the newest
 * value: both of its sides have full fences. Neither sleeping nor waking orders anything else, so
 * Relacy's rule that a thread sees fresh values after it was blocked is taken back.
 */
static int um_os_futex_wait(um_atomic_u32 *word, uint32_t expected, uint64_t deadline_ns)
{
    rl::context &context = rl::ctx();
    int self = context.threadx_->index_;
    rl::timestamp_t last_yield = context.threadx_->last_yield_;

    context.sched();
    if (word->debug_value() != expected)
        return 0;
    if (um_kernel_now.spurious_left > 0 && rl::rand(2) == 0) {
        um_kernel_now.spurious_left--;
        return rl::rand(2) == 0 ? 0 : -EINTR;
    }
    um_kernel_now.sleeps_on[self] = word;
    rl::unpark_reason reason =
        context.park_current_thread(deadline_ns != UMBRA_NEVER, false, false, $);
    um_kernel_now.sleeps_on[self] = NULL;
    context.threadx_->last_yield_ = last_yield;
    return reason == rl::unpark_reason_timeout ? -ETIMEDOUT : 0;
}

/* The ring has a new completion. */
static void um_kernel_ring_wake()
{
    um_kernel_ring &ring = um_kernel_now.ring;

    if (ring.sleeper)
        rl::ctx().unpark_thread(ring.sleeper - 1, false, $);
    ring.sleeper = 0;
}

/* The word is only an address here, as it is to the kernel: its memory may be gone. The ring is the
 * first in the word's queue. */
static void um_os_futex_wake(um_atomic_u32 *word)
{
    rl::context &context = rl::ctx();

    context.sched();
    if (um_kernel_now.ring.watches == word) {
        um_kernel_now.ring.watches = NULL;
        um_kernel_now.ring.watch_done = true;
        um_kernel_ring_wake();
        return;
    }
    for (int thread = 0; thread < UM_THREADS_MOST; thread++) {
        if (um_kernel_now.sleeps_on[thread] == word) {
            um_kernel_now.sleeps_on[thread] = NULL;
            context.unpark_thread(thread, false, $);
            return;
        }
    }
}

static void um_os_rouse(um_atomic_u32 *word, uint32_t how)
{
    if (how == UM_OS_AT_FUTEX) {
        um_os_futex_wake(word);
        return;
    }
    rl::ctx().sched();
    um_kernel_now.ring.watch_done = true;
    um_kernel_ring_wake();
}

static inline uintptr_t um_arch_thread_id(void)
{
    return (rl::thread_index() + 1) * 8; /* an address, as elsewhere */
}

/* Relacy's own form wants a place for the result. */
#undef pthread_join
#define pthread_join(thread, result) ((thread)->wait(false, false, $))

/* Object number `slot` of a kind whose address ends in six zeros. Its destructor is the caller's.
 */
template <class T> static T *um_place(int slot)
{
    static unsigned char place[12][(sizeof(T) + 63) / 64 * 64] __attribute__((aligned(64)));

    return new (place[slot]) T;
}

/* How a waiter of users.hpp waits. */
enum um_model_wait { UM_MODEL_PARK, UM_MODEL_SPIN };

/* ---- scenarios and searches ---- */

/* The memory and the threads of one execution; made before its first step. */
struct world {
    virtual ~world()
    {
    }
    virtual void thread(int index) = 0;
    virtual void after() /* when all threads have ended */
    {
    }
};

template <class World> static world *make_world()
{
    return new World;
}

/* What is searched, and how far: all interleavings, or those with few preemptions, or chance. */
struct scenario {
    const char *name;
    world *(*make)();
    int threads;       /* running from the start */
    int later_threads; /* made with pthread_create */
    bool full;         /* search all interleavings, each load with two values */
    unsigned bound;    /* else all with at most so many preemptions; 0: none of this */
    unsigned random;   /* executions chosen by chance, each load with three values */
};

inline const scenario *um_scenario_now;

/* How one search of one scenario went. */
struct outcome {
    bool passed;
    rl::iteration_t executions;
    rl::string text; /* Relacy's report of a failure */
};

/* Runs one search; in engine.cpp, as all models have the same one. */
outcome search(const scenario &what, rl::scheduler_type_e type);

/* The kind of failure, from Relacy's report: its second line. */
static rl::string verdict(const outcome &failed)
{
    size_t start = failed.text.find('\n') + 1;
    rl::string line = failed.text.substr(start, failed.text.find('\n', start) - start);

    return line.substr(0, line.find(" ("));
}

/* Runs one search of a scenario. Returns false when it failed, with its outcome. */
static bool run_search(const scenario &what, int type, bool talk, outcome *failed)
{
    static const char *const names[] = {"random", "bounded", "full"};

    *failed = search(what, (rl::scheduler_type_e)type);
    if (talk || !failed->passed)
        std::cout << "  " << what.name << ", " << names[type] << " search: " << failed->executions
                  << " executions" << std::endl;
    return failed->passed;
}

/* Runs the searches of a scenario. Returns false at the first failure, with its outcome. */
static bool run_scenario(const scenario &what, bool talk, outcome *failed)
{
    const bool wanted[] = {what.random > 0, what.bound > 0, what.full};

    for (int type = rl::sched_random; type <= rl::sched_full; type++)
        if (wanted[type] && !run_search(what, type, talk, failed))
            return false;
    return true;
}

/*
 * The beginning of a scenario's search by chance, as run_scenario(). Nearly all mutations fail
 * there, each in a scenario of its own, and it is much shorter than all searches of those before
 * it.
 */
static bool run_beginning(const scenario &what, outcome *failed)
{
    scenario brief = what;

    brief.random /= 10;
    return brief.random == 0 || run_search(brief, rl::sched_random, false, failed);
}

/* A text under check. */
struct variant {
    const char *name;
    const char *what;
    const char *expected; /* how it must fail: alternatives with | between; "": not at all */
    const scenario *scenarios;
    int count;
};

/* True if word is one of the alternatives. */
static bool is_among(const rl::string &word, const char *alternatives)
{
    rl::string all = rl::string("|") + alternatives + "|";

    return all.find("|" + word + "|") != rl::string::npos;
}

/* True if the variant behaves as it must. */
static bool check(const variant &v, bool trace)
{
    bool must_fail = v.expected[0] != '\0';
    bool failed = false;
    outcome end;

    std::cout << v.name << ": " << v.what << std::endl;
    for (int i = 0; i < v.count && must_fail && !failed; i++)
        failed = !run_beginning(v.scenarios[i], &end);
    for (int i = 0; i < v.count && !failed; i++)
        failed = !run_scenario(v.scenarios[i], !must_fail, &end);
    if (failed && (trace || !must_fail))
        std::cout << end.text << std::endl;
    if (!failed) {
        std::cout << (must_fail ? "  NOT CAUGHT" : "  passed") << std::endl;
        return !must_fail;
    }
    std::cout << "  " << (must_fail ? "caught: " : "FAILED: ") << verdict(end) << std::endl;
    if (must_fail && !is_among(verdict(end), v.expected)) {
        std::cout << "  but expected: " << v.expected << std::endl;
        return false;
    }
    return must_fail;
}

static int run(const variant *variants, int count, int argc, char **argv)
{
    bool trace = argc > 1 && strcmp(argv[1], "--trace") == 0;
    int first_name = trace ? 2 : 1;
    int checked = 0;
    int bad = 0;

    for (int i = 0; i < count; i++) {
        bool wanted = first_name == argc;

        for (int arg = first_name; arg < argc; arg++)
            wanted = wanted || strcmp(argv[arg], variants[i].name) == 0;
        if (wanted) {
            checked++;
            bad += !check(variants[i], trace);
        }
    }
    std::cout << checked << " checked, " << bad << " not as they must be" << std::endl;
    return bad > 0 || checked == 0;
}

#endif

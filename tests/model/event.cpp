/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The event (umbra/event/protocol.h) under the model checker. See checker.hpp.
 *
 * The name of a scenario is its program: the kind of event, what happened before the start, and
 * after the colon what each thread calls, one letter a call.
 *
 *   S signal   R reset   T try   W wait   c makes the condition of C waits true
 *   A, N, C    wait with a condition that is always true, never true, or true after a c
 *
 * Checked after each execution: there is an order of all calls with the same results as a single
 * thread gets that makes the calls one after the other (struct alone): which waiters were released,
 * what was returned, which waiters still wait and in which order, and whether the event is
 * signaled. The order keeps that of each thread and, where a scenario says so, that of time. So no
 * waiter is lost, overtaken or released twice, and no signal is lost or taken from nowhere. During
 * the execution: each change of the word is one of those listed; a released node belongs to its
 * waiter again; what was written before a single signal is visible to the waiter that it releases.
 * Over all scenarios, each listed change must be met.
 */
#include "checker.hpp"
#include "event_variants.hpp"

enum { OPS = 12, LANES = 6 };

/* A call, and what came of it. Times are steps of one clock. */
struct call {
    char what;
    int lane; /* 0: before the start; else thread + 1 */
    bool answer;
    bool released;
    uint64_t start;
    uint64_t end;
    uint64_t released_at;
};

static bool is_wait(char what)
{
    return strchr("WANC", what) != NULL;
}

/* ---- the specification: an event that a single thread uses ---- */

struct alone {
    bool manual;
    bool value;
    bool condition;
    int queue[OPS];
    int waiting;
    unsigned released; /* bit per call */

    bool takes(char what) const
    {
        return what == 'C' ? condition : what != 'N';
    }

    void release(int waiter)
    {
        released |= 1u << waiter;
        value = value && manual;
    }

    void signal(const call *calls)
    {
        int kept = 0;

        value = true;
        for (int i = 0; i < waiting; i++) {
            if (value && takes(calls[queue[i]].what))
                release(queue[i]);
            else
                queue[kept++] = queue[i];
        }
        waiting = kept;
    }

    void wait(const call *calls, int waiter)
    {
        if ((value || calls[waiter].what != 'W') && takes(calls[waiter].what))
            release(waiter);
        else
            queue[waiting++] = waiter;
    }
};

/* ---- what happened, and whether the specification explains it ---- */

struct history {
    call calls[OPS];
    int count;
    bool timed; /* whether calls that followed each other in time must do so in the order */
    bool ended; /* whether the state at the end is known: */
    bool value;
    int queue[OPS];
    int waiting;

    /* True if `later` must not come before `earlier`. */
    bool before(int earlier, int later) const
    {
        const call &a = calls[earlier];
        const call &b = calls[later];

        if (a.lane == b.lane || a.lane == 0)
            return earlier < later;
        return timed && a.end < b.start;
    }

    bool overlapped(int index) const
    {
        for (int i = 0; i < count; i++)
            if (i != index && calls[i].start < calls[index].end &&
                calls[i].end > calls[index].start)
                return true;
        return false;
    }

    /* Makes one call; whether what it answered is right. */
    bool step(alone *event, int index) const
    {
        const call &c = calls[index];

        if (c.what == 'S')
            event->signal(calls);
        else if (c.what == 'R')
            event->value = false;
        else if (c.what == 'c')
            event->condition = true;
        else if (is_wait(c.what)) {
            bool there = event->value;

            event->wait(calls, index);
            return !c.answer || (there && (event->released & 1u << index));
        } else if (c.answer ||
                   !overlapped(index)) { /* no, when another is in a call: says nothing */
            if (event->value != c.answer)
                return false;
            event->value = event->value && event->manual;
        }
        return true;
    }

    /* True if the waiters that a call released were released, and not before it began. */
    bool releases(unsigned now, int index) const
    {
        for (int i = 0; i < count; i++)
            if ((now & 1u << i) &&
                (!calls[i].released || calls[i].released_at < calls[index].start))
                return false;
        return true;
    }

    bool agrees(const alone &event) const
    {
        for (int i = 0; i < count; i++)
            if (calls[i].released != ((event.released & 1u << i) != 0))
                return false;
        if (!ended)
            return true;
        return event.value == value && event.waiting == waiting &&
               memcmp(event.queue, queue, (size_t)waiting * sizeof(queue[0])) == 0;
    }

    bool explained(const alone &event, unsigned done) const
    {
        if (done == (1u << count) - 1)
            return agrees(event);
        for (int i = 0; i < count; i++) {
            alone next = event;
            bool open = !(done & 1u << i);

            for (int j = 0; j < count && open; j++)
                open = (done & 1u << j) || j == i || !before(j, i);
            if (open && step(&next, i) && releases(next.released & ~event.released, i) &&
                explained(next, done | 1u << i))
                return true;
        }
        return false;
    }
};

/* ---- the changes of the word that are allowed, by name ---- */

enum { RESET, SIGNALED, SIGNALING, S_ACT_R, S_ACT_S, JOINING, J_ACT_R, J_ACT_S };

#define UM_TO(state) (1u << (state))

static const unsigned allowed[8] = {
    /* RESET */ UM_TO(SIGNALING) | UM_TO(JOINING) | UM_TO(SIGNALED) | UM_TO(RESET),
    /* SIGNALED */ UM_TO(SIGNALING) | UM_TO(RESET) | UM_TO(SIGNALED),
    /* SIGNALING */ UM_TO(SIGNALED) | UM_TO(RESET) | UM_TO(S_ACT_R) | UM_TO(S_ACT_S) |
        UM_TO(SIGNALING),
    /* S_ACT_R */ UM_TO(RESET) | UM_TO(S_ACT_S) | UM_TO(S_ACT_R),
    /* S_ACT_S */ UM_TO(SIGNALING) | UM_TO(S_ACT_S),
    /* JOINING */ UM_TO(RESET) | UM_TO(J_ACT_R) | UM_TO(J_ACT_S) | UM_TO(JOINING),
    /* J_ACT_R */ UM_TO(RESET) | UM_TO(J_ACT_S) | UM_TO(J_ACT_R),
    /* J_ACT_S */ UM_TO(SIGNALING) | UM_TO(J_ACT_S)};

static const void *watched; /* the word of the present execution */
static unsigned met[8];     /* changes, over all executions */

static void note_change(const void *word, uint64_t before, uint64_t after)
{
    if (word != watched)
        return;
    RL_ASSERT(allowed[before & 7] & UM_TO(after & 7));
    met[before & 7] |= UM_TO(after & 7);
}

/* True if all changes were met. */
static bool covered()
{
    bool good = true;

    for (int state = 0; state < 8; state++) {
        if (met[state] != allowed[state])
            std::cout << "from state " << state << ": met " << met[state] << ", allowed "
                      << allowed[state] << std::endl;
        good = good && met[state] == allowed[state];
    }
    return good;
}

/* ---- the scenarios ---- */

enum um_rules {
    BY_PROGRAM, /* loads may be old: only the order in each thread counts */
    BY_TIME,    /* loads are new: a call that ended before another began came first */
    LAST_USE    /* as the first; the one released last destroys the event at once */
};

template <class P, um_rules Rules> struct meeting : world {
    typedef typename P::um_event event_type;
    typedef typename P::um_node node_type;

    struct waiter {
        meeting *here;
        int index;
        node_type *node;
    };

    event_type *event;
    bool manual;
    um_atomic_u32 condition;
    rl::var<int> data;
    waiter waiters[OPS];
    history told;
    uint64_t clock;
    int signals;
    int waits;
    int releases;

    meeting()
    {
        const char *program = um_scenario_now->name;

        memset(&told, 0, sizeof(told));
        told.timed = Rules == BY_TIME;
        clock = 0;
        signals = waits = releases = 0;
        event = um_place<event_type>(0);
        event->manual = manual = strncmp(program, "manual", 6) == 0;
        um_atomic_store(&event->word, 0, relaxed);
        um_atomic_store(&event->hint, 0, relaxed);
        um_atomic_store(&condition, 0, relaxed);
        um_plain_write(data, 0);
        read_program(strchr(program, ' ') + 1);
        watched = &event->word;
        um_model_changed = note_change;
        thread(-1);
        um_model_newest = Rules == BY_TIME;
    }

    ~meeting()
    {
        if (event)
            event->~event_type();
        for (int i = 0; i < told.count; i++)
            if (waiters[i].node)
                waiters[i].node->~node_type();
    }

    void read_program(const char *text)
    {
        int lane = strchr(text, ':') ? 0 : 1;

        for (; *text; text++) {
            if (*text == ':' || *text == '|')
                lane++;
            else if (*text != ' ')
                add_call(*text, lane);
        }
    }

    void add_call(char what, int lane)
    {
        int index = told.count++;
        waiter *w = &waiters[index];

        told.calls[index].what = what;
        told.calls[index].lane = lane;
        signals += what == 'S';
        waits += is_wait(what);
        *w = waiter{this, index, NULL};
        if (!is_wait(what))
            return;
        w->node = um_place<node_type>(index);
        um_atomic_store(&w->node->home, 0, relaxed);
        um_plain_write(w->node->flags, 0);
        w->node->accept = what == 'W' ? NULL : accept;
        w->node->arg = w;
    }

    /* A condition looks at what others write: relaxed, so that only the event orders it. */
    static bool accept(void *arg)
    {
        waiter *w = (waiter *)arg;
        char what = w->here->told.calls[w->index].what;

        if (what == 'C')
            return um_atomic_load(&w->here->condition, relaxed) != 0;
        return what == 'A';
    }

    void thread(int index)
    {
        for (int i = 0; i < told.count; i++)
            if (told.calls[i].lane == index + 1)
                perform(i);
    }

    void perform(int index)
    {
        call *c = &told.calls[index];
        typename P::um_released out = {NULL, NULL};

        c->start = ++clock;
        if (c->what == 'c') {
            um_atomic_store(&condition, 1, relaxed);
        } else if (c->what == 'S') {
            if (signals == 1)
                um_plain_write(data, 7);
            P::um_event_signal(event, &out);
        } else if (c->what == 'R') {
            P::um_event_reset(event);
        } else if (c->what == 'T') {
            c->answer = P::um_event_try(event);
            if (c->answer && signals == 1)
                RL_ASSERT(um_plain_read(data) == 7);
        } else {
            c->answer = P::um_event_join(event, waiters[index].node, &out);
            if (c->answer)
                note_release(index);
        }
        c->end = ++clock;
        wake(&out);
    }

    void wake(typename P::um_released *out)
    {
        node_type *node = out->first;

        while (node) {
            node_type *next = node == out->last ? NULL : um_plain_read(node->next);

            note_release((int)((waiter *)node->arg - waiters));
            node = next;
        }
    }

    /* The caller that wakes does what the woken waiter may do at once. */
    void note_release(int index)
    {
        call *c = &told.calls[index];
        node_type *node = waiters[index].node;

        RL_ASSERT(!c->released);
        c->released = true;
        c->released_at = ++clock;
        if (signals == 1 && c->what == 'W')
            RL_ASSERT(um_plain_read(data) == 7);
        um_plain_write(node->next, node);
        um_plain_write(node->before, 0);
        um_plain_write(node->flags, 0);
        if (Rules == LAST_USE && ++releases == waits) {
            event->~event_type();
            event = NULL;
        }
    }

    /* The queue as the free word tells of it. */
    void read_queue(uint64_t word)
    {
        node_type *node = P::um_event_node_of(word);
        node_type *last = NULL;

        RL_ASSERT(!P::um_event_is_held(word));
        RL_ASSERT((word & ~(UM_EVENT_STATE | UM_EVENT_QUEUE | UM_EVENT_NODE)) == 0);
        told.value = P::um_event_state_of(word) == P::UMBRA_EVENT_SIGNALED;
        if (node) {
            RL_ASSERT(!told.value && !(word & UM_EVENT_QUEUE) && !node->accept);
            told.queue[told.waiting++] = (int)((waiter *)node->arg - waiters);
            return;
        }
        if (!(word & UM_EVENT_QUEUE))
            return;
        for (node = um_plain_read(event->first); node; node = um_plain_read(node->next)) {
            RL_ASSERT(um_plain_read(node->before) == (uint64_t)(uintptr_t)last);
            RL_ASSERT(told.waiting < OPS);
            told.queue[told.waiting++] = (int)((waiter *)node->arg - waiters);
            last = node;
        }
        RL_ASSERT(last && um_plain_read(event->last) == last);
    }

    void after()
    {
        alone start = {};

        start.manual = manual;
        if (event) {
            told.ended = true;
            read_queue(event->word.debug_value());
        }
        RL_ASSERT(told.explained(start, 0));
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"auto W|S", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto W|S", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"auto W|SR", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto W|WW", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto W|WSS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, false, 6, 0},
        {"auto W|S", make_world<meeting<P, LAST_USE>>, 2, 0, true, 0, 0},
        {"auto C|cST", make_world<meeting<P, BY_PROGRAM>>, 2, 0, false, 6, 0},
        {"auto T: SW|RT", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"auto W|SRW", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"auto S|TT", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto C|cS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto NW: SA|RS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"auto WW: S|R|W", make_world<meeting<P, BY_TIME>>, 3, 0, false, 4, 0},
        {"auto W|S|R", make_world<meeting<P, BY_PROGRAM>>, 3, 0, true, 0, 0},
        {"manual W|S", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual W|S", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"manual W|SR", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual W|WW", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual W|WSS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, false, 6, 0},
        {"manual W|S", make_world<meeting<P, LAST_USE>>, 2, 0, true, 0, 0},
        {"manual C|cST", make_world<meeting<P, BY_PROGRAM>>, 2, 0, false, 6, 0},
        {"manual T: SW|RT", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"manual W|SRW", make_world<meeting<P, BY_TIME>>, 2, 0, true, 0, 0},
        {"manual S|TT", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual C|cS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual NW: SA|RS", make_world<meeting<P, BY_PROGRAM>>, 2, 0, true, 0, 0},
        {"manual WW: S|R|W", make_world<meeting<P, BY_TIME>>, 3, 0, false, 4, 0},
        {"manual W|S|R", make_world<meeting<P, BY_PROGRAM>>, 3, 0, false, 4, 0},
        {"auto W|S|S", make_world<meeting<P, BY_PROGRAM>>, 3, 0, false, 5, 0},
        {"auto W|W|S", make_world<meeting<P, BY_PROGRAM>>, 3, 0, false, 4, 0},
        {"auto WT|SR|SW", make_world<meeting<P, BY_TIME>>, 3, 0, false, 3, 0},
        {"manual WT|SR|SW", make_world<meeting<P, BY_TIME>>, 3, 0, false, 3, 0},
        {"auto WC: cS|WS|T", make_world<meeting<P, BY_PROGRAM>>, 3, 0, false, 4, 0},
        {"manual NC: cS|W|RS", make_world<meeting<P, BY_PROGRAM>>, 3, 0, false, 3, 0},
        {"auto W|W|S|S", make_world<meeting<P, LAST_USE>>, 4, 0, false, 3, 0},
        {"manual W|W|S", make_world<meeting<P, LAST_USE>>, 3, 0, false, 4, 0},
        {"auto W|W|S|S|R", make_world<meeting<P, BY_PROGRAM>>, 5, 0, false, 0, 300000},
        {"auto W|W|S|S|R", make_world<meeting<P, BY_TIME>>, 5, 0, false, 0, 300000},
        {"auto N: W|C|cS|SA|R", make_world<meeting<P, BY_PROGRAM>>, 5, 0, false, 0, 300000},
        {"manual W|W|S|S|R", make_world<meeting<P, BY_PROGRAM>>, 5, 0, false, 0, 300000},
        {"manual W|W|S|S|R", make_world<meeting<P, BY_TIME>>, 5, 0, false, 0, 300000},
        {"manual N: W|C|cS|SA|R", make_world<meeting<P, BY_PROGRAM>>, 5, 0, false, 0, 300000},
        {"auto WW: SW|SR|SW|RS|T", make_world<meeting<P, BY_TIME>>, 5, 0, false, 0, 200000},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_FREE_NOTHING(name, what, expected)                                                      \
    void name::um_claimed_free(um_claimed *)                                                       \
    {                                                                                              \
        RL_ASSERT(false); /* no claims here */                                                     \
    }
UM_VARIANTS(UM_FREE_NOTHING)

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};
    int result = run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);

    if (result == 0 && argc == 2 && strcmp(argv[1], "unmodified") == 0)
        return covered() ? 0 : 1;
    return result;
}

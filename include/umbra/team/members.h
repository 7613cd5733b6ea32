/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The bodies of umbra/team.h: runs and barriers; placing, starting and ending the members' threads.
 * Private; included by that header, after its declarations.
 */
#ifndef UMBRA_TEAM_MEMBERS_H
#define UMBRA_TEAM_MEMBERS_H

#include <pthread.h>
#include <stdlib.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/why.h>
#include <umbra/cpu.h>
#include <umbra/os/fork.h>
#include <umbra/os/os.h>
#include <umbra/shadow.h>
#include <umbra/team/protocol.h>
#include <umbra/topology.h>
#include <umbra/wait.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

/* A member: its thread, and its part of each run. */
struct um_member {
    struct um_team_part part;
    struct umbra_team *team; /* this and the next two: set once */
    unsigned number;
    int cpu;               /* UMBRA_ANY_CPU: not bound */
    int error;             /* of binding: thread, before `started` */
    um_atomic_u32 started; /* 1: bound, or failed; thread writes, owner waits for it */
    pthread_t thread;      /* not of member 0; owner, while it creates and ends threads */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* its thread waits for runs */
    struct umbra_waiter at_barrier; /* the thread that executes its part waits there */
    uint64_t barriers;              /* that its part has come to; that thread only */
    um_atomic_u64 taken; /* parts of others that its thread executed; its thread writes */
};

struct umbra_team {
    struct um_team_call call;

    /* the owner's line: written in each run */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 run; /* the last one; owner writes, any thread reads it as a number */
    bool running;      /* a run is under way; owner only */
    bool any_thread;   /* this and the next: options, set once */
    bool parts_stay;
    bool roams;            /* the caller is not bound, but members are; set once */
    unsigned last;         /* members of the last run; owner only */
    struct um_owned owned; /* its owner, and that thread's binding; shadow/owner.h */
    uint64_t roam_look_at; /* a time stamp: when to look where the caller runs; this and the next
                              two: owner only */
    unsigned roam_runs;    /* until the clock is read for that */
    unsigned roam_moves;   /* looks in a row that have moved it */

    /* set once; all read */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct um_member *member;
    um_atomic_u64 *flag;  /* of barriers; um_team_flag() */
    unsigned flag_stride; /* from one to the next, in words */
    unsigned members;
    uint32_t forks;   /* um_teams.forks when it was created */
    unsigned started; /* threads; owner, while it creates and ends them */
    int *cpus;
    bool own_topology;            /* made by umbra_team_create */
    struct um_origin origin;      /* of the members, until they are bound */
    umbra_team_hook *begin, *end; /* this and the next two: options, set once */
    umbra_team_idle *idle;
    void *hook_arg;
    struct umbra_wait_policy policy; /* of members */
    struct umbra_wait_policy owner_policy;
    struct umbra_wait_policy barrier_policy; /* of all, at barriers */
    um_atomic_u64 robbed;                    /* of the policies: threads write it seldom */
    struct umbra_team *next;                 /* this and the next: under um_teams.lock */
    unsigned sharers;                        /* teams that share a place with it, also it itself */
    uintptr_t creator;                       /* the thread that is its member 0; 0: any_thread */
    UM_ALIGNED(UMBRA_CACHE_LINE) struct umbra_waiter waiter; /* owner waits for ends of parts */
};

struct um_teams {
    pthread_mutex_t lock;
    struct umbra_team *first; /* linked by umbra_team.next; under the lock */
    um_atomic_u32 forks;      /* that led to this process; only its first thread writes */
};

UM_SHARED(struct um_teams um_teams, {PTHREAD_MUTEX_INITIALIZER, NULL, 0});

/* What the calling thread is, if a team has started it. */
UM_SHARED(UM_THREAD_LOCAL struct um_member *um_team_here, NULL);

/* ---- barriers ---- */

/* The member of the team that the calling thread is: of those that it has not started, member 0. */
UM_INLINE struct um_member *um_team_self(struct umbra_team *team)
{
    struct um_member *here = um_team_here;

    return here && here->team == team ? here : team->member;
}

/* The flag that part `number` waits for in a round. */
UM_INLINE um_atomic_u64 *um_team_flag(struct umbra_team *team, unsigned round, unsigned number)
{
    return &team->flag[(size_t)team->flag_stride * (team->members * round + number)];
}

UM_INLINE void umbra_team_barrier(struct umbra_team *team, unsigned member)
{
    struct um_member *self = member == UMBRA_TEAM_SELF ? um_team_self(team) : &team->member[member];
    unsigned members = um_plain_read(team->call.members);
    uint64_t number = ++self->barriers;
    unsigned round = 0;
    uint64_t come;

    if (member == UMBRA_TEAM_SELF)
        member = self->number;
    for (unsigned ahead = 1; ahead < members; ahead *= 2) {
        um_atomic_u64 *own = um_team_flag(team, round, member);
        unsigned to = member + ahead;

        to = to < members ? to : to - members;
        um_team_signal(um_team_flag(team, round, to), number);
        come = um_team_come(own);
        umbra_wake(&team->member[to].at_barrier);
        if (come < number)
            um_wait_while_equal64(&self->at_barrier, own, come, UINT64_MAX, UMBRA_NEVER);
        round++;
    }
}

/* ---- counters ---- */

/* What a team is, and what it has done so far. */
struct um_team_stats {
    unsigned members;
    const int *cpus; /* of each member; lives as long as the team */
    uint64_t runs;
    uint64_t taken;                /* parts that another thread than their member executed */
    struct umbra_wait_stats waits; /* of all threads: for runs, ends of parts, at barriers */
};

/* Copies the team's counters. Any thread; the numbers are of different moments during a run. */
UM_LINKONCE void um_team_stats(const struct umbra_team *team, struct um_team_stats *stats);

/* Measures what was put off when the team was made (wait/machine.h), and has its threads wait so.
 * options: the team's `wait`; it has no `inside` and no `idle`. The owner, outside a run; blocks for
 * some milliseconds. Returns 0 or an error, as umbra_wait_policy_init() and umbra_team_run(). */
UM_LINKONCE UM_COLD int um_team_measure(struct umbra_team *team,
                                        const struct umbra_wait_options *options);

#ifdef UMBRA_IMPLEMENTATION

/* ---- a run ---- */

/* Executes a part in this run, unless another thread has begun it. True if it executed it. */
UM_INLINE bool um_team_take(struct umbra_team *team, unsigned number, uint64_t run)
{
    struct um_team_part *part = &team->member[number].part;

    if (!um_team_begin(part, run))
        return false;
    um_team_execute(&team->call, part, number, run);
    umbra_wake(&team->waiter);
    return true;
}

/* Takes all parts of a run of `members` that have not begun, from the one after `self` on. */
UM_LINKONCE UM_NOINLINE void um_team_take_all(struct umbra_team *team, unsigned self,
                                              unsigned members, uint64_t run)
{
    um_atomic_u64 *taken = &team->member[self].taken;

    for (unsigned i = 1; i < members; i++) {
        unsigned number = (self + i) % members;

        if (number != 0 && um_team_take(team, number, run))
            um_count(taken, 1);
    }
}

/* A member's thread does what the call word says. */
UM_INLINE void um_member_act(struct um_member *self, uint64_t word)
{
    uint64_t run = um_team_word_run(word);

    if (!um_team_has(word, self->number))
        return;
    um_team_take(self->team, self->number, run);
    if (UM_UNLIKELY(word % 2 == 1))
        um_team_take_all(self->team, self->number, um_team_word_members(word), run);
}

UM_INLINE void um_team_wake(struct umbra_team *team, unsigned members)
{
    for (unsigned i = 1; i < members; i++)
        umbra_wake(&team->member[i].waiter);
}

/* Takes what has not begun of a run, and lets its members do so, too. */
UM_INLINE void um_team_share(struct umbra_team *team, unsigned members, uint64_t run)
{
    if (members > 2) {
        um_team_open(&team->call, members, run);
        um_team_wake(team, members);
    }
    um_team_take_all(team, 0, members, run);
}

/* What is left of a run when a part has not ended soon: shares parts, unless they stay; waits. */
UM_LINKONCE UM_NOINLINE void um_team_finish(struct umbra_team *team, unsigned members, uint64_t run)
{
    if (!team->parts_stay)
        um_team_share(team, members, run);
    for (unsigned i = 1; i < members; i++)
        um_wait_until_equal64(&team->waiter,
                              um_team_end(&team->call, &team->member[i].part, members), run,
                              UINT64_MAX, UMBRA_NEVER);
}

/* True if a part ends while the owner polls once in a while. */
UM_INLINE bool um_team_ends_soon(struct umbra_team *team, const um_atomic_u64 *end, uint64_t run)
{
    const struct um_wait_cond cond = {end, run, UINT64_MAX, true, true};
    const struct umbra_wait_policy *policy = team->waiter.policy;
    uint32_t polls = 0;

    if (!um_team_ended(end, run)) {
        polls = um_wait_poll(&cond, policy->gap, policy->batch);
        um_count(&team->waiter.count.polls, polls ? polls : policy->batch);
        if (polls == 0)
            return false;
    }
    um_count(&team->waiter.count.ended[UMBRA_ENDED_SPIN], 1);
    return true;
}

/* What a run of another size than the last needs: a part that the last one left out begins with the
 * barriers of part 0, and its member waits for the rest. */
UM_LINKONCE UM_NOINLINE void um_team_call_other(struct umbra_team *team, unsigned members,
                                                umbra_team_fn *fn, void *arg, uint64_t run)
{
    for (unsigned i = team->last; i < members; i++)
        team->member[i].barriers = team->member[0].barriers;
    um_team_post(&team->call, fn, arg, members, run);
    if (team->last < members)
        um_team_post_rest(&team->call, run);
    team->last = members;
}

/* The error for a run by a thread that may not have one now, or for its umbra_team_destroy. */
UM_LINKONCE UM_COLD int um_team_refusal(const struct umbra_team *team)
{
    if (um_owned_by_caller(&team->owned))
        return um_why(-EBUSY, "the caller is inside a run");
    if (team->any_thread && !um_owned_is_left(&team->owned))
        return um_why(-EBUSY, "another thread runs the team");
    return um_why(-EPERM, "the caller does not own the team");
}

/* Of a team that any thread may run: true if the caller is its owner now. */
UM_INLINE bool um_team_claim(struct umbra_team *team)
{
    /* a member has a function to call while it waits, which must not run the team */
    if (um_team_self(team) != team->member ||
        !um_owner_claim(&team->owned.owner, um_arch_thread_id()))
        return false;
    um_owners_watch(); /* without memory for that, a thread that ends inside a run is not noticed */
    return true;
}

/* True if the caller may begin a run, or destroy the team: it is the owner, outside a run. */
UM_INLINE bool um_team_enter(struct umbra_team *team)
{
    return UM_LIKELY(um_owned_by_caller(&team->owned)) ? !team->running : um_team_claim(team);
}

/* True if the team's threads are in this process. relaxed: the number changes before the child has a
 * second thread */
UM_INLINE bool um_team_is_here(const struct umbra_team *team)
{
    return UM_LIKELY(um_atomic_load(&um_teams.forks, relaxed) == team->forks);
}

/* Between two looks whether a caller that is not bound is on a member's place: so many runs, so that
 * several callers in turn are looked at, and so long, twice as long after each move in a row. */
#define UM_TEAM_ROAM_RUNS 31
#define UM_TEAM_ROAM_NS 500000
#define UM_TEAM_ROAM_MOVES 8

/* True if another member of the run sits where the caller runs. */
UM_LINKONCE UM_COLD bool um_team_is_crossed(const struct umbra_team *team, unsigned members)
{
    int saved = errno, cpu = um_topology_current_cpu(team->owned.topology);
    bool crossed = false;

    errno = saved;
    for (unsigned member = 1; member < members && cpu != team->cpus[0]; member++)
        crossed = crossed || team->cpus[member] == cpu;
    return crossed;
}

/* The caller leaves a member's place for its own: Linux would leave both there, in turns. */
UM_LINKONCE UM_COLD void um_team_leave_place(struct umbra_team *team, unsigned members)
{
    uint64_t now = um_cycles();

    team->roam_runs = UM_TEAM_ROAM_RUNS;
    if (now < team->roam_look_at)
        return;
    if (!um_team_is_crossed(team, members)) {
        team->roam_moves = 0;
    } else {
        um_os_leave_for(team->cpus[0]);
        team->roam_moves += team->roam_moves < UM_TEAM_ROAM_MOVES;
    }
    team->roam_look_at = now + (um_ns_to_cycles(UM_TEAM_ROAM_NS) << team->roam_moves);
}

UM_LINKONCE int umbra_team_run(struct umbra_team *team, unsigned members, umbra_team_fn *fn,
                               void *arg)
{
    uint64_t run;
    unsigned ended = 1;

    if (UM_UNLIKELY(!um_team_is_here(team)))
        return um_why(-ESRCH, "the team's threads are the parent process's");
    if (UM_UNLIKELY(!fn))
        return um_why(-EINVAL, "there is no function to run");
    if (UM_UNLIKELY(members > team->members))
        return um_why(-EINVAL, "a run of %u members: the team has %u", members, team->members);
    members = members ? members : team->members;
    if (UM_UNLIKELY(!um_team_enter(team)))
        return um_team_refusal(team);
    team->running = true;
    run = um_atomic_load(&team->run, relaxed) +
          UM_TEAM_RUN; /* relaxed, both: only the owner writes */
    um_atomic_store(&team->run, run, relaxed);
    if (UM_LIKELY(members == team->last))
        um_team_post(&team->call, fn, arg, members, run);
    else
        um_team_call_other(team, members, fn, arg, run);
    um_team_wake(team, members);
    fn(0, members, arg);
    while (
        ended < members &&
        um_team_ends_soon(team, um_team_end(&team->call, &team->member[ended].part, members), run))
        ended++;
    if (UM_UNLIKELY(ended < members))
        um_team_finish(team, members, run);
    team->running = false;
    if (UM_UNLIKELY(team->roams) && team->roam_runs-- == 0)
        um_team_leave_place(team, members);
    if (UM_UNLIKELY(team->any_thread))
        um_owner_leave(&team->owned.owner);
    return 0;
}

/* ---- members' threads ---- */

/* Waits for a run after the one of the call word `word`, which it has seen. */
UM_INLINE void um_member_await(struct um_member *self, uint64_t word)
{
    const struct um_team_call *call = &self->team->call;
    const um_atomic_u64 *on = &call->word;
    uint64_t seen = word;

    if (UM_UNLIKELY(!um_team_has(word, self->number))) {
        on = &call->rest;
        seen = um_team_look_rest(call);
        if (um_team_look(call) != word)
            return;
    }
    um_wait_while_equal64(&self->waiter, on, seen, UINT64_MAX, UMBRA_NEVER);
}

UM_LINKONCE void um_member_serve(struct um_member *self)
{
    const struct um_team_call *call = &self->team->call;
    uint64_t word = um_team_look(call);

    while (word != UM_TEAM_QUIT) {
        um_member_act(self, word);
        um_member_await(self, word);
        word = um_team_look(call);
    }
}

/* What is to be done when a member's thread begins. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_member_begin(const struct um_member *self)
{
    const struct umbra_team *team = self->team;
    int error = um_origin_bind(&team->origin, team->owned.topology, self->cpu);

    if (!error && team->begin)
        team->begin(self->number, team->hook_arg);
    return error;
}

UM_LINKONCE UM_COLD void *um_member_main(void *arg)
{
    struct um_member *self = arg;
    int error;

    um_team_here = self;
    error = um_member_begin(self);
    self->error = error;
    umbra_signal(&self->started, 1, &self->team->waiter);
    um_member_serve(self);
    if (!error && self->team->end)
        self->team->end(self->number, self->team->hook_arg);
    um_origin_end();
    return NULL;
}

/* Ends the threads that were started. */
UM_LINKONCE UM_COLD void um_team_end_threads(struct umbra_team *team)
{
    um_team_dismiss(&team->call);
    um_team_wake(team, team->members);
    for (unsigned i = 1; i < team->started; i++)
        pthread_join(team->member[i].thread, NULL);
}

/* pthread_create() for a member. Returns 0 or an error number. */
UM_LINKONCE UM_COLD int um_member_create_thread(struct um_member *member, size_t stack_bytes)
{
    pthread_attr_t attributes;
    int error;

    if (!stack_bytes) /* what the program has set for all threads */
        return pthread_create(&member->thread, NULL, um_member_main, member);
    error = pthread_attr_init(&attributes);
    if (error)
        return error;
    error = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (!error)
        error = pthread_create(&member->thread, &attributes, um_member_main, member);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Starts a member's thread. */
UM_LINKONCE UM_COLD int um_team_start_one(struct umbra_team *team, struct um_member *member,
                                          size_t stack_bytes)
{
    int error = um_member_create_thread(member, stack_bytes);

    if (error)
        return um_why(-error, "the thread of member %u cannot be started: %s", member->number,
                      strerror(error));
    team->started++;
    return 0;
}

/* Waits until a member's thread has begun, unless that does nothing which can fail or which the caller
 * could tell from a later beginning. */
UM_LINKONCE UM_COLD int um_team_await_one(struct umbra_team *team, struct um_member *member)
{
    if (member->cpu == UMBRA_ANY_CPU && !team->origin.processors && !team->begin)
        return 0;
    um_wait_until_equal32(&team->waiter, &member->started, 1, UINT32_MAX, UMBRA_NEVER);
    if (member->error)
        um_why(member->error, "binding member %u to processor %d: %s", member->number, member->cpu,
               strerror(-member->error));
    return member->error;
}

UM_LINKONCE UM_COLD int um_team_start(struct umbra_team *team,
                                      const struct umbra_team_options *options)
{
    uint64_t signals;
    int error = 0;

    team->origin = um_origin_here();
    signals = um_os_mask_signals();
    team->owner_policy.idle = NULL; /* not with signals blocked */
    team->started = 1;
    for (unsigned i = 1; i < team->members && !error; i++)
        error = um_team_start_one(team, &team->member[i], options->stack_bytes);
    for (unsigned i = 1; i < team->members && !error; i++)
        error = um_team_await_one(team, &team->member[i]);
    team->owner_policy.idle = team->policy.idle;
    um_os_unmask_signals(signals);
    if (error)
        um_team_end_threads(team);
    return error;
}

/* ---- places ---- */

/* A place that a team may choose: a cpu, without `siblings` a core. Entries are of the table's cpus;
 * a core's is that of its first cpu. */
struct um_team_places {
    const struct um_cpu_table *table;
    bool siblings;
    unsigned *on;     /* members of teams there; UINT_MAX: chosen */
    unsigned busiest; /* the most members on a place before the choice */
    int *taken;       /* for um_team_nearest() */
};

UM_LINKONCE UM_COLD unsigned *um_team_on(const struct um_team_places *places, int at)
{
    const struct um_cpu_table *table = places->table;

    return &places->on[places->siblings ? (unsigned)at : table->core[table->cpu[at].core].first];
}

/* Counts the members of all teams on each place. Under the lock. */
UM_LINKONCE UM_COLD void um_team_count_others(struct um_team_places *places)
{
    for (const struct umbra_team *team = um_teams.first; team; team = team->next)
        for (unsigned i = 0; i < team->members; i++) {
            int at = um_cpu_table_find(places->table, team->cpus[i]);

            if (at >= 0 && ++*um_team_on(places, at) > places->busiest)
                places->busiest = *um_team_on(places, at);
        }
}

/* The place nearest to a cpu, or its own, with at most `most` members; -ENODEV: there is none. */
UM_LINKONCE UM_COLD int um_team_nearest(const struct um_team_places *places, int cpu, unsigned most)
{
    unsigned count = 0;

    for (unsigned i = 0; i < places->table->cpus; i++)
        if (*um_team_on(places, (int)i) > most)
            places->taken[count++] = places->table->cpu[i].cpu;
    if (!um_cpu_taken(cpu, places->taken, count))
        return cpu;
    return um_cpu_table_nearest(places->table, cpu, places->taken, count);
}

/* Places around the caller, at most `most`, first those with the fewest members of other teams; a
 * caller that is bound stays. Returns how many, or -ENODEV. Under the lock. */
UM_LINKONCE UM_COLD int um_team_places_around(const struct umbra_team *team,
                                              struct um_team_places *places, int *cpus,
                                              unsigned most)
{
    int cpu = um_topology_current_cpu(team->owned.topology);
    unsigned count = 0, level = 0;
    int next;

    if (cpu < 0)
        return um_why(-ENODEV, "the caller runs on a processor that is not in the topology");
    um_team_count_others(places);
    next = um_topology_is_bound(team->owned.topology) ? cpu : um_team_nearest(places, cpu, 0);
    while (count < most && level <= places->busiest) {
        if (next >= 0) {
            cpus[count++] = next;
            *um_team_on(places, um_cpu_table_find(places->table, next)) = UINT_MAX;
        } else {
            level++;
        }
        next = um_team_nearest(places, cpu, level);
    }
    return (int)count;
}

/* Chooses a cpu for each member, into team->cpus. Returns how many members there are, or an error. */
UM_LINKONCE UM_COLD int um_team_places(struct umbra_team *team,
                                       const struct umbra_team_options *options)
{
    unsigned all = umbra_topology_info(team->owned.topology)->cpus;
    unsigned wanted = options->members;
    unsigned most = wanted && wanted < all ? wanted : all, usual;
    struct um_team_places places = {.table = &team->owned.topology->table,
                                    .siblings = options->siblings,
                                    .on = calloc(all, sizeof(*places.on)),
                                    .taken = calloc(all, sizeof(*places.taken))};
    int count, error;

    team->cpus = calloc(all > UMBRA_TEAM_MOST ? all : UMBRA_TEAM_MOST, sizeof(*team->cpus));
    if (!places.on || !places.taken || !team->cpus)
        count = -ENOMEM;
    else if (options->cpus)
        count = um_topology_place_list(team->owned.topology, options->cpus, team->cpus, all);
    else
        count = um_team_places_around(team, &places, team->cpus, most);
    free(places.on);
    free(places.taken);
    if (count < 0)
        return count;
    error = um_topology_usual(team->owned.topology, (unsigned)count, UMBRA_TEAM_MOST, &usual);
    if (error != 0)
        return error;
    if (wanted == 0)
        wanted = options->cpus ? (unsigned)count : usual;
    for (unsigned i = (unsigned)count; i < wanted; i++)
        team->cpus[i] = team->cpus[i % (unsigned)count];
    return (int)wanted;
}

/* True if the place of some member is another's, too, or its sibling. */
UM_LINKONCE UM_COLD bool um_team_shares(const struct umbra_team *team, bool cpu)
{
    for (unsigned i = 1; i < team->members; i++)
        for (unsigned j = 0; j < i; j++)
            if (cpu ? team->cpus[i] == team->cpus[j]
                    : umbra_topology_shared(team->owned.topology, team->cpus[i], team->cpus[j]) ==
                          UMBRA_SHARED_CORE)
                return true;
    return false;
}

/* True if teams have a place in common, apart from that of a thread that owns both. */
UM_LINKONCE UM_COLD bool um_teams_meet(const struct umbra_team *a, const struct umbra_team *b)
{
    bool one = a->creator && a->creator == b->creator;

    for (unsigned i = 0; i < a->members; i++)
        for (unsigned j = 0; j < b->members; j++)
            if (a->cpus[i] == b->cpus[j] && !(one && i == 0 && j == 0))
                return true;
    return false;
}

/* More teams, or fewer, share a place with this one. Under the lock. */
UM_LINKONCE UM_COLD void um_team_add_sharers(struct umbra_team *team, int more)
{
    unsigned before = team->sharers;

    team->sharers = before + (unsigned)more;
    /* relaxed: only tells threads how to wait */
    if (!before != !team->sharers)
        um_atomic_store(&team->robbed, team->sharers ? 0 : UM_NOT_SHARED, relaxed);
}

/* Enters the list, and chooses a cpu for each member. 0 or a negative errno. */
UM_LINKONCE UM_COLD int um_team_join(struct umbra_team *team,
                                     const struct umbra_team_options *options)
{
    int count;

    pthread_mutex_lock(&um_teams.lock);
    count = um_team_places(team, options);
    if (count > UMBRA_TEAM_MOST)
        count = um_why(-EINVAL, "%d places: the most is %d members", count, UMBRA_TEAM_MOST);
    if (count > 0) {
        team->members = (unsigned)count;
        um_atomic_store(&team->robbed, UM_NOT_SHARED, relaxed); /* as um_team_add_sharers() */
        um_team_add_sharers(team, um_team_shares(team, true));
        for (struct umbra_team *other = um_teams.first; other; other = other->next)
            if (um_teams_meet(team, other)) {
                um_team_add_sharers(team, 1);
                um_team_add_sharers(other, 1);
            }
        team->next = um_teams.first;
        um_teams.first = team;
    }
    pthread_mutex_unlock(&um_teams.lock);
    return count < 0 ? count : 0;
}

/* Leaves the list, if it is there. */
UM_LINKONCE UM_COLD void um_team_leave(struct umbra_team *team)
{
    struct umbra_team **link = &um_teams.first;

    pthread_mutex_lock(&um_teams.lock);
    while (*link && *link != team)
        link = &(*link)->next;
    if (*link) {
        *link = team->next;
        for (struct umbra_team *other = um_teams.first; other; other = other->next)
            if (um_teams_meet(team, other))
                um_team_add_sharers(other, -1);
    }
    pthread_mutex_unlock(&um_teams.lock);
}

/* ---- create and destroy ---- */

/* Members that share a processor spin so long before they yield it: with 1000, four barriers of
 * eight members on two processors take a fifth longer. */
#define UM_TEAM_CROWDED_NS 200

/* A longer yield, at a barrier or at a run's end, lent the processor to another process, or to long
 * parts: a scheduler's turn is longer, a part that is worth a yield far shorter. */
#define UM_TEAM_ROBBED_NS 1000000

/*
 * Makes a policy from options. While the team shares processors, with itself or with another team,
 * its threads yield: a yield that lasts `yield_cycles` lent the processor to another process.
 */
UM_LINKONCE UM_COLD int um_team_make_policy(struct umbra_team *team,
                                            const struct umbra_wait_options *options,
                                            uint64_t yield_cycles, struct umbra_wait_policy *policy)
{
    struct umbra_wait_options wait = *options;
    bool crowded = wait.mode == UMBRA_WAIT_TWO_PHASE && um_team_shares(team, true);
    int error;

    wait.polite = wait.polite || um_team_shares(team, false);
    if (crowded && wait.spin_cycles == 0)
        wait.spin_cycles = um_ns_to_cycles(UM_TEAM_CROWDED_NS);
    error = umbra_wait_policy_init(policy, &wait);
    if (!error && wait.mode == UMBRA_WAIT_TWO_PHASE && policy->block_cycles != UMBRA_NEVER) {
        policy->robbed = &team->robbed;
        policy->yield_cycles = yield_cycles;
        policy->shared_spin_cycles =
            options->spin_cycles ? policy->spin_cycles : um_ns_to_cycles(UM_TEAM_CROWDED_NS);
    }
    return error;
}

/* A policy's function for other work: the caller waits. */
UM_LINKONCE bool um_team_idles(struct umbra_waiter *waiter, void *arg)
{
    struct umbra_team *team = arg;
    size_t at = (size_t)((uintptr_t)waiter - (uintptr_t)team->member) / sizeof(*team->member);

    return team->idle(waiter == &team->waiter ? 0 : (unsigned)at, waiter, team->hook_arg);
}

/* Has a wait call the function once it has lasted as long as a call may take: so it lasts at most
 * twice as long as without. */
UM_LINKONCE UM_COLD void um_team_let_idle(struct umbra_team *team, uint64_t ns,
                                          struct umbra_wait_policy *policy)
{
    policy->idle = um_team_idles;
    policy->idle_arg = team;
    policy->spin_cycles = policy->shared_spin_cycles = um_ns_to_cycles(ns ? ns : UMBRA_SPIN_NS);
}

/* While a member waits for a run, the owner may keep the processor for long: such a yield says
 * nothing about another process. */
UM_LINKONCE UM_COLD int um_team_make_policies(struct umbra_team *team,
                                              const struct umbra_team_options *options)
{
    const struct umbra_wait_options *inside = options->inside ? options->inside : &options->wait;
    int error = um_team_make_policy(team, &options->wait, UMBRA_NEVER, &team->policy);

    if (!error)
        error = um_team_make_policy(team, inside, um_ns_to_cycles(UM_TEAM_ROBBED_NS),
                                    &team->owner_policy);
    if (!error && team->idle) {
        um_team_let_idle(team, options->idle_ns, &team->policy);
        um_team_let_idle(team, options->idle_ns, &team->owner_policy);
    }
    team->barrier_policy = team->owner_policy;
    return error;
}

/*
 * Chooses how owner and members poll. A run of two hands over as a shadow's fork and join do. At
 * barriers there is one pause, unless UMBRA_WAIT forces the gap. What is measured is a hand-over,
 * in which only one thread waits at a time. At a barrier all come at about the same time, and a
 * thread that polls without a pause takes the line from a thread that comes: a barrier of two takes
 * 33 ns with PAUSE, 40 to 65 ns with what a hand-over is fastest with (Zen 4).
 */
UM_LINKONCE UM_COLD void um_team_settle_polls(struct umbra_team *team)
{
    uint32_t gap = um_poll_gap(UMBRA_PAIR_CORE, UMBRA_POLL_SLOT);

    um_wait_set_gap(&team->barrier_policy, gap);
    if (team->members > 1)
        gap = um_gap_between(team->owned.topology, &team->policy, UMBRA_POLL_SLOT, team->cpus[0],
                             team->cpus[1]);
    um_wait_set_gap(&team->policy, gap);
    um_wait_set_gap(&team->owner_policy, gap);
}

/* What um_team_measure() has made. */
struct um_team_measured {
    struct umbra_team *team;
    struct umbra_wait_policy policy;
};

/* A member's part of a run in which no member waits for runs: member 0 changes how they do. */
UM_LINKONCE UM_COLD void um_team_take_policy(unsigned number, unsigned members, void *arg)
{
    struct um_team_measured *measured = arg;

    (void)members;
    umbra_team_barrier(measured->team, number);
    if (number == 0)
        measured->team->policy = measured->policy;
    umbra_team_barrier(measured->team, number);
}

UM_LINKONCE UM_COLD int um_team_measure(struct umbra_team *team,
                                        const struct umbra_wait_options *options)
{
    struct um_team_measured measured = {.team = team};
    struct umbra_wait_policy owner_policy;
    int error = um_team_make_policy(team, options, UMBRA_NEVER, &measured.policy);

    if (!error)
        error =
            um_team_make_policy(team, options, um_ns_to_cycles(UM_TEAM_ROBBED_NS), &owner_policy);
    if (error)
        return error;
    if (team->members > 1)
        um_wait_set_gap(&measured.policy,
                        um_gap_between(team->owned.topology, &measured.policy, UMBRA_POLL_SLOT,
                                       team->cpus[0], team->cpus[1]));
    um_wait_set_gap(&owner_policy, measured.policy.gap);
    error = umbra_team_run(team, 0, um_team_take_policy, &measured);
    if (!error)
        team->owner_policy = owner_policy; /* which the owner alone reads */
    return error;
}

/* Memory for members and flags; all that must be zero is. */
UM_LINKONCE UM_COLD int um_team_make_members(struct umbra_team *team, enum umbra_team_bind bind)
{
    unsigned rounds = 0;
    size_t member_bytes = team->members * sizeof(*team->member), flag_bytes;

    for (unsigned ahead = 1; ahead < team->members; ahead *= 2)
        rounds++;
    team->flag_stride = team->members > 2 ? UMBRA_CACHE_LINE / sizeof(*team->flag) : 1;
    flag_bytes = um_place_round(sizeof(*team->flag) * team->flag_stride * team->members *
                                    (rounds ? rounds : 1),
                                UMBRA_CACHE_LINE);
    team->member = aligned_alloc(UMBRA_CACHE_LINE, member_bytes);
    team->flag = aligned_alloc(UMBRA_CACHE_LINE, flag_bytes);
    if (!team->member || !team->flag)
        return -ENOMEM;
    memset(team->member, 0, member_bytes);
    memset((void *)team->flag, 0, flag_bytes);
    for (unsigned i = 0; i < team->members; i++) {
        struct um_member *member = &team->member[i];

        member->cpu = bind == UMBRA_TEAM_BIND_NONE ? UMBRA_ANY_CPU : team->cpus[i];
        member->number = i;
        member->team = team;
        um_waiter_init(&member->waiter, &team->policy);
        um_waiter_init(&member->at_barrier, &team->barrier_policy);
    }
    um_waiter_init(&team->waiter, &team->owner_policy);
    /* relaxed: no other thread has the team. All are waiting for a run of all */
    um_atomic_store(&team->call.word, um_team_word(0, team->members, false), relaxed);
    team->last = team->members;
    return 0;
}

/* The places of its parent's teams are free. */
UM_LINKONCE UM_COLD void um_teams_in_child(void)
{
    um_origin_in_child();
    um_team_here = NULL;
    um_teams.first = NULL;
    /* relaxed: the child has one thread */
    um_atomic_store(&um_teams.forks, um_atomic_load(&um_teams.forks, relaxed) + 1, relaxed);
}

UM_LINKONCE UM_COLD int um_teams_watch_forks(void)
{
    static const struct um_fork_locks locks = {{&um_teams.lock}, um_teams_in_child};

    return um_forks_enter(UM_FORK_TEAMS, &locks);
}

/* The part of umbra_team_create that needs the topology. */
UM_LINKONCE UM_COLD int um_team_settle(struct umbra_team *team,
                                       const struct umbra_team_options *options)
{
    int error;

    if (options->members > UMBRA_TEAM_MOST)
        return um_why(-EINVAL, "members = %u: the most is %d", options->members, UMBRA_TEAM_MOST);
    if ((unsigned)options->bind > UMBRA_TEAM_BIND_NONE)
        return um_why(-EINVAL, "bind = %d: there is no such choice", (int)options->bind);
    team->begin = options->begin;
    team->end = options->end;
    team->idle = options->idle;
    team->hook_arg = options->hook_arg;
    error = um_team_join(team, options);
    if (!error)
        error = um_team_make_policies(team, options);
    if (!error)
        error = um_team_make_members(team, options->bind);
    if (!error)
        um_team_settle_polls(team);
    team->roams = !error && umbra_topology_info(team->owned.topology)->binds &&
                  (options->bind == UMBRA_TEAM_BIND_MEMBERS ||
                   (options->bind == UMBRA_TEAM_BIND_ALL && team->any_thread));
    if (!error && options->bind == UMBRA_TEAM_BIND_ALL && !team->any_thread)
        error = um_topology_bind_own(team->owned.topology, team->cpus[0], NULL, &team->owned.saved);
    if (error)
        return error;
    error = um_team_start(team, options);
    if (error)
        umbra_topology_unbind(team->owned.topology, team->owned.saved);
    return error;
}

UM_LINKONCE UM_COLD void um_team_free(struct umbra_team *team)
{
    um_team_leave(team);
    um_owned_end(&team->owned);
    if (team->own_topology)
        umbra_topology_destroy(team->owned.topology);
    free(team->member);
    free((void *)team->flag);
    free(team->cpus);
    free(team);
}

UM_LINKONCE int umbra_team_create(const struct umbra_team_options *options,
                                  struct umbra_team **team)
{
    static const struct umbra_team_options defaults = {0};
    struct umbra_team *made = aligned_alloc(UMBRA_CACHE_LINE, sizeof(*made));
    int error;

    um_why_begin();
    options = options ? options : &defaults;
    error = um_teams_watch_forks();
    if (!made || error) {
        free(made);
        return um_why_returned(made ? error : -ENOMEM);
    }
    memset(made, 0, sizeof(*made));
    made->forks = um_atomic_load(&um_teams.forks, relaxed); /* as um_team_is_here() */
    made->owned.topology = options->topology;
    error = made->owned.topology ? 0 : um_topology_share(&made->owned.topology);
    made->own_topology = !options->topology && !error;
    made->any_thread = options->any_thread;
    made->parts_stay = options->parts_stay;
    made->creator = made->any_thread ? 0 : um_arch_thread_id();
    if (!error)
        error = um_owned_begin(&made->owned);
    if (!error)
        error = um_team_settle(made, options);
    if (error) {
        um_team_free(made);
        return um_why_returned(error);
    }
    if (made->any_thread)
        um_owner_leave(&made->owned.owner);
    *team = made;
    return um_why_returned(0);
}

UM_LINKONCE int umbra_team_destroy(struct umbra_team *team)
{
    if (!team)
        return 0;
    if (!um_team_enter(team) &&
        (um_owned_by_caller(&team->owned) || !um_owned_may_end(&team->owned)))
        return um_team_refusal(team);
    if (um_team_is_here(team))
        um_team_end_threads(team);
    umbra_topology_unbind(team->owned.topology, team->owned.saved);
    um_team_free(team);
    return 0;
}

/* ---- counters ---- */

UM_LINKONCE UM_COLD void um_wait_stats_add(struct umbra_wait_stats *sum,
                                           const struct umbra_waiter *waiter)
{
    struct umbra_wait_stats more = umbra_waiter_stats(waiter);

    for (int end = 0; end < 3; end++)
        sum->ended[end] += more.ended[end];
    sum->timeouts += more.timeouts;
    sum->spurious += more.spurious;
    sum->capped += more.capped;
    sum->preempted += more.preempted;
    sum->cycles += more.cycles;
}

UM_LINKONCE void um_team_stats(const struct umbra_team *team, struct um_team_stats *stats)
{
    struct um_team_stats sum = {.members = team->members,
                                .cpus = team->cpus,
                                .runs = um_atomic_load(&team->run, relaxed) /
                                        UM_TEAM_RUN}; /* a number */

    um_wait_stats_add(&sum.waits, &team->waiter);
    for (unsigned i = 0; i < team->members; i++) {
        sum.taken += um_atomic_load(&team->member[i].taken, relaxed); /* a number */
        um_wait_stats_add(&sum.waits, &team->member[i].waiter);
        um_wait_stats_add(&sum.waits, &team->member[i].at_barrier);
    }
    *stats = sum;
}

#endif /* UMBRA_IMPLEMENTATION */

#endif

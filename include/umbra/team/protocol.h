/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a caller has one function executed once for each member of a team. Private. Checked by
 * tests/model/team, with the calls of umbra/team/members.h around it.
 *
 * Runs are numbered in steps of UM_TEAM_RUN, so that a number, n and a bit make a word. A run of n
 * members has the parts 0 to n - 1; part 0 is the caller's own. The call is one line, which the
 * caller writes and all members of the run read. Each part has two words: the last run in which it
 * was begun, and the last in which it ended.
 *
 *   call word   (r, n, 0)    run r: each member below n takes its own part
 *               (r, n, 1)    run r: each member below n takes any part that has not begun
 *               QUIT         the team ends; no run follows (there is no run 0)
 *
 *   caller of run r                      member, or the caller where it takes parts
 *   C1  fn, arg, n                       M1  look at the call word: run r          acquire
 *   C2  call word = (r, n, 0) seq_cst    M2  begun: what is less becomes r, by one thread
 *   C3  execute part 0                   M3  read fn, arg, n; execute the part
 *   C4  wait until each part's           M4  ended = r                             seq_cst
 *       end is r             acquire
 *
 * One thread executes each part: M2 is a compare-and-swap, and only its winner goes on. It need not
 * be the part's own member: if the system does not run that member, another thread wins, and the
 * member finds `begun` at r or later when it comes.
 *
 * A member may come so late that the run it saw in M1 is over. Then M2 fails: a run is over when
 * all its parts have ended, so all were begun, and `begun` never goes down. If M2 succeeds, run r
 * is not over, and the caller does not write fn and arg (C1 of the next run) before this thread's
 * M4 has been seen (C4). So M3 reads what run r wrote, and M2 needs no order of its own.
 *
 * What the caller wrote before the run is visible to the parts (C2, M1), and what a part wrote, to
 * the caller (M4, C4), and so to all parts of later runs, whichever threads execute them. C2 and M4
 * are also step S1 of wait/park.h, so um_park_wake may follow.
 *
 * A run of fewer members. A member that the call word leaves out waits on another line, the rest,
 * so that runs of that size or smaller ones neither wake it nor move a line that it polls. The
 * caller writes the rest after C2 in a run with more members than the one before it had:
 *
 *   caller                               member that the call word w leaves out
 *   C2  call word                        R1  v = rest                              acquire
 *   C2' rest = r             seq_cst     R2  look at the call word: it is still w  acquire
 *                                        R3  wait until the rest is not v, then M1
 *
 * No run that has the member is missed: after w the first such run has more members than the one
 * before it, so its caller writes the rest. If R1 does not read that, R3 waits for it; if R1 does,
 * R2 reads that run's call word or a later one.
 *
 * Lines. `begun` is mostly touched by its own member only, and so stays in that member's cache. In
 * a run of two the end of part 1 stands in the line of the call: one line carries the run there and
 * back. In a larger run each end has a line of its own, since all members end at about the same
 * time, and the line of the call is written once a run.
 *
 * The barrier of a run is a dissemination barrier (Hensgen, Finkel, Manber, 1988): in round k a
 * part signals the part 2^k further on, and waits for the signal of the part 2^k before it. Each
 * flag has one writer and one reader in a run, and its value is the number of the barrier, which
 * goes up, from run to run as well. A flag is at most one ahead of its reader: its writer can only
 * come to the next barrier when all parts have come to this one. It may be far behind, from a run
 * of another size; then it changes once before the reader goes on. A part that the last run did not
 * have begins with part 0's number.
 *
 * A thread at a barrier executes the part of its own number. Parts are taken only when part 0 has
 * ended; where parts meet, all have begun by then, each by its own thread. So a thread that the team
 * has started is known by a thread-local variable; the only other one is the caller, at part 0.
 */
#ifndef UMBRA_TEAM_PROTOCOL_H
#define UMBRA_TEAM_PROTOCOL_H

#ifndef UM_MODEL_CHECK
#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/cpu.h>
#endif

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_TEAM_QUIT UINT64_C(1)
#define UM_TEAM_RUN UINT64_C(4096) /* from one run's number to the next: below is room in a word */

typedef void um_team_fn(unsigned member, unsigned members, void *arg);

/* The line out. */
struct um_team_call {
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 word;         /* as above: caller writes, members read */
    um_plain(um_team_fn *) fn;  /* caller writes between runs, read by threads that began a part */
    um_plain(void *) arg;       /* likewise */
    um_plain(unsigned) members; /* likewise: n */
    um_atomic_u64 end;          /* the end of part 1 in a run of two; else not used */

    /* the rest: caller writes, members that runs leave out read */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 rest;
};

/* A part. */
struct um_team_part {
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 begun; /* last run in which it was begun: written by the thread that begins it */
    UM_ALIGNED(UMBRA_CACHE_LINE)
    um_atomic_u64 own_end; /* last run in which it ended: written by the thread that began it */
};

UM_INLINE uint64_t um_team_word(uint64_t run, unsigned members, bool open)
{
    return run | 2 * members | open;
}

UM_INLINE uint64_t um_team_word_run(uint64_t word)
{
    return word & ~(UM_TEAM_RUN - 1);
}

UM_INLINE unsigned um_team_word_members(uint64_t word)
{
    return (unsigned)(word & (UM_TEAM_RUN - 1)) / 2;
}

/* True if the call word's run has the member. */
UM_INLINE bool um_team_has(uint64_t word, unsigned member)
{
    return member < um_team_word_members(word);
}

/* Where the end of a part is told, in a run of so many members. */
UM_INLINE um_atomic_u64 *um_team_end(struct um_team_call *call, struct um_team_part *part,
                                     unsigned members)
{
    return members == 2 ? &call->end : &part->own_end;
}

/* C1, C2: calls run `run`. Caller, when the run before is over. um_park_wake of each member must
 * follow, here and after the next two functions. */
UM_INLINE void um_team_post(struct um_team_call *call, um_team_fn *fn, void *arg, unsigned members,
                            uint64_t run)
{
    um_plain_write(call->fn, fn);
    um_plain_write(call->arg, arg);
    um_plain_write(call->members, members);
    /* seq_cst: fn, arg and the caller's writes before the run, pairs with acquire in
     * um_team_look(); step S1 of a park */
    um_atomic_store(&call->word, um_team_word(run, members, false), seq_cst);
}

/* C2'. Caller, after um_team_post() of a run with more members than the one before. */
UM_INLINE void um_team_post_rest(struct um_team_call *call, uint64_t run)
{
    /* seq_cst: the call word, pairs with acquire in um_team_look_rest(); step S1 of a park */
    um_atomic_store(&call->rest, run, seq_cst);
}

/* Caller, in run `run`: its members may take any part of it. */
UM_INLINE void um_team_open(struct um_team_call *call, unsigned members, uint64_t run)
{
    /* seq_cst: as um_team_post(), which it replaces */
    um_atomic_store(&call->word, um_team_word(run, members, true), seq_cst);
}

/* Caller, when all runs are over: members end. */
UM_INLINE void um_team_dismiss(struct um_team_call *call)
{
    um_atomic_store(&call->word, UM_TEAM_QUIT, seq_cst); /* step S1 of a park */
    um_team_post_rest(call, UINT64_MAX);
}

/* M1. A member: the call word. */
UM_INLINE uint64_t um_team_look(const struct um_team_call *call)
{
    /* acquire: pairs with the stores of um_team_post() and um_team_open() */
    return um_atomic_load(&call->word, acquire);
}

/* R1. A member: the rest. */
UM_INLINE uint64_t um_team_look_rest(const struct um_team_call *call)
{
    return um_atomic_load(&call->rest, acquire); /* acquire: pairs with um_team_post_rest() */
}

/* M2. True if the caller begins the part in this run; it must then call um_team_execute(). */
UM_INLINE bool um_team_begin(struct um_team_part *part, uint64_t run)
{
    uint64_t before = um_atomic_load(&part->begun, relaxed);

    /* relaxed, both: see above. The look spares the line of a part that has been begun. If the swap
     * fails, another thread has begun the part, in this run or, where this is over, in a later one:
     * it changes once in a run */
    return before < run && um_atomic_cas(&part->begun, &before, run, relaxed, relaxed);
}

/* M3, M4. Executes a part that was begun. um_park_wake of the caller of the run must follow. */
UM_INLINE void um_team_execute(struct um_team_call *call, struct um_team_part *part,
                               unsigned member, uint64_t run)
{
    um_team_fn *fn = um_plain_read(call->fn);
    unsigned members = um_plain_read(call->members);

    fn(member, members, um_plain_read(call->arg));
    /* seq_cst: the part's writes before its end, pairs with acquire in um_team_ended(); step S1 of
     * a park */
    um_atomic_store(um_team_end(call, part, members), run, seq_cst);
}

/* C4. Caller: true if the end that um_team_end() names is told in this run. */
UM_INLINE bool um_team_ended(const um_atomic_u64 *end, uint64_t run)
{
    return um_atomic_load(end, acquire) == run; /* acquire: pairs with um_team_execute() */
}

/* Barrier: tells the reader of a flag that its writer has come to barrier `number`. um_park_wake of
 * the reader must follow. */
UM_INLINE void um_team_signal(um_atomic_u64 *flag, uint64_t number)
{
    /* seq_cst: the writer's writes before the barrier, pairs with the acquire of the reader's wait;
     * step S1 of a park */
    um_atomic_store(flag, number, seq_cst);
}

/* Barrier: the last one to which the flag's writer has come. In a team of two the flags stand in one
 * line, which a signal has just brought: a look that follows at once finds it there. */
UM_INLINE uint64_t um_team_come(const um_atomic_u64 *flag)
{
    return um_atomic_load(flag, acquire); /* acquire: pairs with um_team_signal() */
}

#endif

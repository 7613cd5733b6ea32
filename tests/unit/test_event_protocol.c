/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The event's protocol one step at a time: one thread makes every change of the word that
 * umbra/event/protocol.h lists, and no other. What other threads would do in the middle of a call is
 * done from within it, by conditions that are asked while the event is held, or beforehand, by a
 * hold that the test keeps. That the steps fit together among threads: tests/model/event.
 */
#define _GNU_SOURCE
#include <runner.h>

#include <stdlib.h>
#include <string.h>

#include <umbra/event/protocol.h>

enum { STATES = 8, WAITERS = 4 };

/* Which states may follow a state: what Figure 4 of the paper and the shortcuts come to. */
static const char *const follow[STATES] = {[UMBRA_EVENT_RESET] = "0125",
                                           [UMBRA_EVENT_SIGNALED] = "012",
                                           [UMBRA_EVENT_SIGNALING] = "01234",
                                           [UMBRA_EVENT_SIGNALING_ACT_RESET] = "034",
                                           [UMBRA_EVENT_SIGNALING_ACT_SIGNAL] = "24",
                                           [UMBRA_EVENT_JOINING] = "0567",
                                           [UMBRA_EVENT_JOINING_ACT_RESET] = "067",
                                           [UMBRA_EVENT_JOINING_ACT_SIGNAL] = "27"};

static bool may_follow(unsigned from, unsigned to)
{
    return strchr(follow[from], (int)('0' + to)) != NULL;
}

/* An event, waiters, and what to do while it is held: a letter a call, at each question. */
struct scene {
    struct um_event event;
    struct um_node node[WAITERS];
    struct um_released out; /* of the call that the test makes */
    const char *meanwhile;  /* S signal, R reset, J join; '.' ends the calls of one question */
    const char *answers;    /* y or n for each question; none: n */
    unsigned joined;        /* nodes in use */
};

/* Changes seen by all tests of a process: bit t of entry s. */
static unsigned seen[STATES];

static unsigned state(const struct scene *s)
{
    return um_event_state_of(atomic_load(&s->event.word));
}

/* Notes that the event went from `from` to what it is now. */
static void note(const struct scene *s, unsigned from)
{
    unsigned to = state(s);

    cr_assert(may_follow(from, to), "%u to %u", from, to);
    seen[from] |= 1u << to;
}

static bool ask(void *arg);

static struct um_node *fresh_node(struct scene *s, bool asks)
{
    struct um_node *node = &s->node[s->joined++];

    cr_assert_leq(s->joined, WAITERS);
    memset(node, 0, sizeof(*node));
    node->accept = asks ? ask : NULL;
    node->arg = s;
    return node;
}

/* One call of another thread, which finds the event held: it leaves its request. */
static void leave(struct scene *s, char call)
{
    struct um_released out = {NULL, NULL};
    unsigned from = state(s);

    cr_assert(um_event_is_held(atomic_load(&s->event.word)));
    if (call == 'S')
        um_event_signal(&s->event, &out);
    else if (call == 'R')
        um_event_reset(&s->event);
    else
        cr_assert_not(um_event_join(&s->event, fresh_node(s, false), &out));
    cr_assert_null(out.first);
    note(s, from);
}

/* A waiter's condition: what others do meanwhile, then the answer. */
static bool ask(void *arg)
{
    struct scene *s = arg;

    while (*s->meanwhile && *s->meanwhile != '.')
        leave(s, *s->meanwhile++);
    if (*s->meanwhile == '.')
        s->meanwhile++;
    return *s->answers && *s->answers++ == 'y';
}

static void begin(struct scene *s, bool manual)
{
    memset(s, 0, sizeof(*s));
    s->event.manual = manual;
    s->meanwhile = s->answers = "";
}

static unsigned released(const struct scene *s)
{
    unsigned count = s->out.first != NULL;

    for (const struct um_node *node = s->out.first; node && node != s->out.last; node = node->next)
        count++;
    return count;
}

/* The test's own calls; the event is free before and after. */
static void signal_now(struct scene *s)
{
    s->out = (struct um_released){NULL, NULL};
    um_event_signal(&s->event, &s->out);
    cr_assert_not(um_event_is_held(atomic_load(&s->event.word)));
}

static bool join_now(struct scene *s, bool asks)
{
    bool taken;

    s->out = (struct um_released){NULL, NULL};
    taken = um_event_join(&s->event, fresh_node(s, asks), &s->out);
    cr_assert_not(um_event_is_held(atomic_load(&s->event.word)));
    return taken;
}

/* A hold that the test keeps: what a call does up to letting go. */
static void take_hold(struct scene *s, struct um_hold *hold, unsigned held)
{
    uint64_t word = atomic_load(&s->event.word);
    unsigned from = state(s);

    cr_assert(um_event_cas(&s->event, &word, held));
    note(s, from);
    s->out = (struct um_released){NULL, NULL};
    um_event_hold(&s->event, hold, word, held, &s->out);
}

/* Takes the requests out of the word, as um_event_let_go() does, and carries them out. */
static void replay(struct scene *s, struct um_hold *hold)
{
    uint64_t word = atomic_load(&s->event.word);
    uint64_t log = word;
    unsigned from = state(s);

    hold->held = um_event_taken_word(word);
    cr_assert(um_event_cas(&s->event, &word, hold->held));
    note(s, from);
    um_event_replay(&s->event, hold, log);
}

static void let_go(struct scene *s, struct um_hold *hold)
{
    unsigned from = state(s);

    cr_assert_eq(atomic_load(&s->event.word), hold->held);
    um_event_let_go(&s->event, hold);
    cr_assert_not(um_event_is_held(atomic_load(&s->event.word)));
    note(s, from);
}

/* ---- the walk ---- */

static void walk_free(struct scene *s)
{
    unsigned from;

    begin(s, false);
    signal_now(s); /* Reset to Signaled, nobody waits */
    note(s, UMBRA_EVENT_RESET);
    signal_now(s); /* merged */
    note(s, UMBRA_EVENT_SIGNALED);
    cr_assert(um_event_try(&s->event)); /* consumed */
    note(s, UMBRA_EVENT_SIGNALED);
    cr_assert_not(um_event_try(&s->event));
    signal_now(s);
    from = state(s);
    um_event_reset(&s->event);
    note(s, from);
    cr_assert_eq(state(s), UMBRA_EVENT_RESET);
    cr_assert_not(join_now(s, false)); /* through Joining, to a waiter in the word */
    cr_assert_eq(um_event_node_of(atomic_load(&s->event.word)), &s->node[0]);
    signal_now(s); /* taken out in one step */
    note(s, UMBRA_EVENT_RESET);
    cr_assert_eq(s->out.first, &s->node[0]);
}

static void walk_joining(struct scene *s)
{
    struct um_hold hold;

    begin(s, false);
    take_hold(s, &hold, UMBRA_EVENT_JOINING);
    leave(s, 'J'); /* stays Joining */
    replay(s, &hold);
    leave(s, 'R'); /* JoiningActReset */
    leave(s, 'R');
    replay(s, &hold);
    leave(s, 'J');
    replay(s, &hold);
    let_go(s, &hold); /* Reset */
    take_hold(s, &hold, UMBRA_EVENT_JOINING);
    leave(s, 'R');
    leave(s, 'S'); /* JoiningActSignal */
    leave(s, 'R');
    leave(s, 'S');
    replay(s, &hold); /* Signaling: both waiters go, two signals */
    cr_assert_eq(released(s), 2);
    let_go(s, &hold); /* Reset: none is left over */
    take_hold(s, &hold, UMBRA_EVENT_JOINING);
    let_go(s, &hold);
    cr_assert_eq(atomic_load(&s->event.word), UMBRA_EVENT_RESET);
    take_hold(s, &hold, UMBRA_EVENT_JOINING);
    leave(s, 'S'); /* at once JoiningActSignal */
    replay(s, &hold);
    let_go(s, &hold);
    cr_assert_eq(atomic_load(&s->event.word), UMBRA_EVENT_SIGNALED);
}

static void walk_signaling(struct scene *s)
{
    struct um_hold hold;

    begin(s, false);
    take_hold(s, &hold, UMBRA_EVENT_SIGNALING);
    um_event_do_signals(&s->event, &hold, 1);
    leave(s, 'J'); /* stays Signaling; takes the signal */
    replay(s, &hold);
    cr_assert_eq(released(s), 1);
    leave(s, 'S'); /* SignalingActSignal */
    leave(s, 'R');
    leave(s, 'S');
    replay(s, &hold); /* Signaling */
    let_go(s, &hold); /* Signaled */
    cr_assert_eq(state(s), UMBRA_EVENT_SIGNALED);
    take_hold(s, &hold, UMBRA_EVENT_SIGNALING);
    leave(s, 'R'); /* SignalingActReset */
    leave(s, 'R');
    replay(s, &hold);
    let_go(s, &hold); /* Reset */
    cr_assert_eq(state(s), UMBRA_EVENT_RESET);
    take_hold(s, &hold, UMBRA_EVENT_SIGNALING);
    leave(s, 'R');
    leave(s, 'S'); /* SignalingActSignal */
    replay(s, &hold);
    let_go(s, &hold);
    take_hold(s, &hold, UMBRA_EVENT_SIGNALING);
    hold.value = false;
    let_go(s, &hold); /* Reset: somebody took it */
}

Test(event_protocol, makes_every_listed_transition_and_no_other)
{
    struct scene *s = aligned_alloc(64, sizeof(*s));

    walk_free(s);
    walk_joining(s);
    walk_signaling(s);
    for (unsigned from = 0; from < STATES; from++)
        for (unsigned to = 0; to < STATES; to++)
            cr_assert_eq((seen[from] >> to & 1) != 0, may_follow(from, to), "%u to %u", from, to);
    free(s);
}

/* ---- requests left while a condition is asked ---- */

Test(event_protocol, signals_left_during_a_join_release_as_many)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "JJSS"; /* two join, two signal, while the first is asked */
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(released(&s), 2);
    cr_assert_eq(s.out.first, &s.node[1]);
    cr_assert_eq(s.out.last, &s.node[2]);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET | UM_EVENT_QUEUE);
}

Test(event_protocol, a_reset_left_after_a_signal_ends_reset)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "SR";
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET | UM_EVENT_QUEUE);
}

Test(event_protocol, a_signal_left_after_a_reset_ends_signaled)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "RS";
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_SIGNALED | UM_EVENT_QUEUE);
}

Test(event_protocol, a_join_left_after_a_reset_does_not_see_the_signal_before_it)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "SRJ";
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(released(&s), 0);
    cr_assert_eq(s.event.first, &s.node[0]);
    cr_assert_eq(s.event.last, &s.node[1]);
}

Test(event_protocol, a_join_left_after_a_signal_takes_it)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "SJ";
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(s.out.first, &s.node[1]);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET | UM_EVENT_QUEUE);
}

Test(event_protocol, a_condition_left_asking_is_asked_again_for_the_left_signal)
{
    static struct scene s;

    begin(&s, false);
    s.meanwhile = "S";
    s.answers = "ny"; /* no at the join, yes at the signal */
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(s.out.first, &s.node[0]);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET);
}

Test(event_protocol, a_manual_event_releases_all_and_stays_signaled)
{
    static struct scene s;

    begin(&s, true);
    s.meanwhile = "JJS.RJ"; /* the second question: the left signal's */
    cr_assert_not(join_now(&s, true));
    cr_assert_eq(released(&s), 2);
    cr_assert_eq(s.event.first, &s.node[0]);
    cr_assert_eq(s.event.last, &s.node[3]);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET | UM_EVENT_QUEUE);
}

Test(event_protocol, a_refused_signal_stays_for_whoever_comes_without_condition)
{
    static struct scene s;

    begin(&s, false);
    cr_assert_not(join_now(&s, true));
    signal_now(&s);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_SIGNALED | UM_EVENT_QUEUE);
    cr_assert(join_now(&s, false));
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET | UM_EVENT_QUEUE);
}

/* As a signal handler may, that interrupts the holder: it must not wait for it. */
Test(event_protocol, a_manual_event_takes_any_number_of_left_signals)
{
    static struct scene s;
    struct um_hold hold;

    begin(&s, true);
    take_hold(&s, &hold, UMBRA_EVENT_JOINING);
    for (unsigned i = 0; i < 70000; i++)
        leave(&s, 'S');
    replay(&s, &hold);
    let_go(&s, &hold);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_SIGNALED);
}

Test(event_protocol, an_auto_event_counts_65535_left_signals)
{
    static struct scene s;
    struct um_hold hold;

    begin(&s, false);
    take_hold(&s, &hold, UMBRA_EVENT_JOINING);
    for (unsigned i = 0; i < 65535; i++)
        leave(&s, 'S');
    cr_assert_eq(atomic_load(&s.event.word) >> 48, 65535);
    leave(&s, 'J');
    leave(&s, 'S');
    leave(&s, 'R');
    replay(&s, &hold);
    let_go(&s, &hold);
    cr_assert_eq(released(&s), 1);
    cr_assert_eq(atomic_load(&s.event.word), UMBRA_EVENT_RESET);
}

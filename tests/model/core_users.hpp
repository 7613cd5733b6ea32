/* SPDX-License-Identifier: BSL-1.0 */
/*
 * How a core uses its inbox, for inbox.cpp, idle.cpp, quiet.cpp and other models: what
 * um_core_post(), um_core_poke(), um_core_wait() and um_core_receive() do. Included after the
 * variants.
 */
#ifndef UMBRA_TESTS_MODEL_CORE_USERS_HPP
#define UMBRA_TESTS_MODEL_CORE_USERS_HPP

/* A message, or a poke, has come to a core. */
struct receiver {
    virtual ~receiver()
    {
    }
    virtual void receive(int message) = 0;
};

template <class P> struct mail_core {
    typedef typename P::um_node node_type;

    um_atomic_u64 inbox;
    typename P::umbra_waiter waiter;

    mail_core()
    {
        um_atomic_store(&inbox, 0, relaxed);
        P::um_waiter_init(&waiter, UM_MODEL_PARK);
    }

    void post(node_type *node)
    {
        if (P::um_inbox_push(&inbox, node))
            P::umbra_wake(&waiter);
    }

    void poke()
    {
        if (P::um_inbox_poke(&inbox))
            P::umbra_wake(&waiter);
    }

    void wait()
    {
        typename P::um_wait_cond cond = {&inbox, 0, UINT64_MAX, true, false};

        P::um_wait_run(&waiter, cond, UMBRA_NEVER);
    }

    /* Hands over all messages; kind is their number. How many there were. */
    int take(receiver *to)
    {
        node_type *node = P::um_inbox_take(&inbox);
        int count = 0;

        for (; node; count++) {
            node_type *next = P::um_inbox_next(node);

            RL_ASSERT(count < 8); /* no circle */
            to->receive((int)um_plain_read(node->kind));
            node = next;
        }
        return count;
    }
};

/* A message that is in no inbox. */
template <class P> static typename P::um_node *make_message(int number)
{
    typename P::um_node *node = um_place<typename P::um_node>(number);

    um_atomic_store(&node->link, 0, relaxed);
    um_plain_write(node->kind, (uint32_t)number);
    um_plain_write(node->flags, (uint32_t)0);
    return node;
}

#ifndef UM_MODEL_CLAIMS
#define UM_FREE_NOTHING(name, what, expected)                                                      \
    void name::um_claimed_free(um_claimed *)                                                       \
    {                                                                                              \
        RL_ASSERT(false); /* no claims here */                                                     \
    }
UM_VARIANTS(UM_FREE_NOTHING)
#endif

#endif

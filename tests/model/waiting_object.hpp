/* SPDX-License-Identifier: BSL-1.0 */
/*
 * What the models of umbra/sync.h share: the calls' texts as they are in sync.h and its folder, on
 * the stand-ins of sync_types.hpp and sync_users.hpp, and an object in a place of its own, which
 * its last user frees. Includes the variants: UM_VARIANTS_OF names them.
 */
#ifndef UM_MODEL_WAITING_OBJECT_HPP
#define UM_MODEL_WAITING_OBJECT_HPP

#include "checker.hpp"

/* A waiter is in the frame of its call, and zero where its initializer does not name a field. */
template <class T> struct zeroed : rl::var<T> {
    zeroed(T value = T())
    {
        um_plain_write(*this, value);
    }
};

#undef um_plain
#define um_plain(type) zeroed<type>
#define UM_ALWAYS_INLINE static inline
#define UM_SELF_THREAD 1u
#define UMBRA_CACHE_LINE 64
#define UMBRA_EVENT_INIT                                                                           \
    {                                                                                              \
    }
#define UMBRA_MUTEX_CALL_NS 0
#define UMBRA_MUTEX_PATIENCE_NS 0
#define UM_MUTEX_GAP 2
#define UM_NOTIFIED_ALONE UINT64_MAX
#define UM_LOCK_LOOKS 0 /* they change nothing but the time */
#define um_arch_pause() ((void)0)
#define um_why(error, ...) (error)

/* A deadline that may pass at any moment. */
enum : uint64_t { PERHAPS = 1 };

inline unsigned um_model_fibers; /* which threads stand for fibers, a bit each */

static uintptr_t um_model_self(unsigned index)
{
    return (index + 1) * 8 | (um_model_fibers >> index & 1 ? 0 : UM_SELF_THREAD);
}

#include UM_VARIANTS_OF

template <class P, class Object> struct waiting_object : world {
    struct object {
        Object sync;
        rl::var<int> written; /* by the holders: turns */
        rl::var<int> users;
    };
    object *there = um_place<object>(0);
    bool freed = false;

    waiting_object()
    {
        um_model_fibers = 0;
        um_atomic_store(&there->sync.word, 0, relaxed);
        um_plain_write(there->written, 0);
        um_plain_write(there->users, 0);
    }

    ~waiting_object()
    {
        if (!freed)
            there->~object();
    }

    void free_object()
    {
        RL_ASSERT(um_atomic_load(&there->sync.word, relaxed) == 0);
        freed = true;
        there->~object();
    }

    /* True: the call succeeded; false: it gave up, as a hasty one may. */
    bool succeeded(int error, bool hasty)
    {
        RL_ASSERT(error == 0 || (hasty && error == -ETIMEDOUT));
        return error == 0;
    }
};

#endif

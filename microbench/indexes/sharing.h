/*
 * Threads that share an index: locks, which are volatile, since a restart leaves no one to hold
 * them. An odd number is a locked one; a reader that takes no lock sees by it that something has
 * changed meanwhile.
 */
#pragma once

#include "native.h"

#include <sched.h>

enum { MB_STRIPES = 4096, MB_SPINS = 64 };

struct mb_sharing {
    uint32_t threads;
    _Atomic uint32_t whole;               /* while the structure as such changes */
    _Atomic uint32_t stripes[MB_STRIPES]; /* of its parts */
};

/* `tries`: how often it was tried before; its holder may not be running. */
static inline void mb_wait_for_lock(unsigned tries)
{
    if (tries % MB_SPINS == MB_SPINS - 1)
        sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static inline bool mb_try_lock(_Atomic uint32_t *lock)
{
    uint32_t free = atomic_load(lock) & ~UINT32_C(1);
    return atomic_compare_exchange_strong(lock, &free, free + 1);
}

static inline void mb_lock(_Atomic uint32_t *lock)
{
    for (unsigned tries = 0; !mb_try_lock(lock); tries++)
        mb_wait_for_lock(tries);
}

static inline void mb_unlock(_Atomic uint32_t *lock)
{
    uint32_t held = atomic_load_explicit(lock, memory_order_relaxed);
    atomic_store_explicit(lock, held + 1, memory_order_release);
}

/* What it is while it is free. */
static inline uint32_t mb_unlocked(const _Atomic uint32_t *lock)
{
    uint32_t now;
    for (unsigned tries = 0; (now = atomic_load(lock)) & 1; tries++)
        mb_wait_for_lock(tries);
    return now;
}

/*
 * How an index makes its stores durable: which flush, which fence, and how often (BENTŌ, section 3).
 *
 * An index is written once, over three verbs: store a word, flush its line, fence. The discipline
 * says what they become:
 *
 *   designed      each verb is its instruction, where the index's paper has it
 *   ff            a fence follows every flush
 *   sff           a flush and a fence follow every store; the index's own are left out
 *   optimized     designed, without the flushes of a line that is flushed again before anything
 *                 depends on it (Level Hashing Optimized)
 *   unaware       designed, and a flush after every store that shifts an entry (FAST&FAIR Cache
 *                 Unaware)
 *
 * `added_fence` is another kind of fence, after each flush that the index does not fence itself: with
 * clwb instead of clflush it keeps the order that clflush has (BENTŌ, section 3.2), and leaves the
 * index's own fences as they are.
 *
 * A test gives its own medium (durable.h) in place of the instructions.
 */
#pragma once

#include "../durable.h"
#include "../kernel.h"

enum mb_discipline { MB_DESIGNED, MB_FF, MB_SFF, MB_OPTIMIZED, MB_UNAWARE, MB_DISCIPLINES };
static const char *const mb_discipline_names[] = {"designed",  "ff",      "sff",
                                                  "optimized", "unaware", NULL};

struct mb_policy {
    enum mb_flush flush; /* MB_NO_FLUSH: the caches are durable (eADR), or nothing is to be */
    enum mb_fence fence, added_fence;
    enum mb_discipline discipline;
    const struct mb_medium *medium; /* NULL: instructions */
};

/*
 * An index compiled as a library of its own (wrapper.c) has one policy: that of the papers'
 * programs, in constants, so that its instructions lie as they would without policies.
 */
#ifdef MB_ONLY_DISCIPLINE
#define MB_POLICY(policy)                                                                          \
    ((void)(policy), &(const struct mb_policy){.flush = MB_CLFLUSH, .fence = MB_MFENCE,            \
                                               .discipline = MB_ONLY_DISCIPLINE})
#else
#define MB_POLICY(policy) (policy)
#endif

MB_ALWAYS_INLINE void mb_flush_now(const struct mb_policy *policy, const void *at)
{
    policy = MB_POLICY(policy);
    if (policy->medium)
        policy->medium->flush(at, 1);
    else if (policy->flush == MB_CLWB)
        mb_clwb_flush(at, 1);
    else if (policy->flush == MB_CLFLUSHOPT)
        mb_clflushopt_flush(at, 1);
    else if (policy->flush == MB_CLFLUSH)
        mb_clflush_flush(at, 1);
}

MB_ALWAYS_INLINE void mb_fence_by(const struct mb_policy *policy, enum mb_fence fence)
{
    if (policy->medium)
        policy->medium->fence();
    else if (fence == MB_SFENCE)
        mb_store_fence();
    else if (fence == MB_MFENCE)
        mb_full_fence();
}

MB_ALWAYS_INLINE void mb_fence_now(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    mb_fence_by(policy, policy->fence);
}

/* Another thread may store into it. */
MB_ALWAYS_INLINE uint64_t mb_get(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Stores a word; other threads see stores in their order. Those of one line become durable so. */
MB_ALWAYS_INLINE void mb_put(const struct mb_policy *policy, uint64_t *to, uint64_t value)
{
    policy = MB_POLICY(policy);
    if (policy->medium)
        policy->medium->write(to, &value, sizeof value);
    else
        __atomic_store_n(to, value, __ATOMIC_RELEASE);
    if (policy->discipline == MB_SFF) {
        mb_flush_now(policy, to);
        mb_fence_now(policy);
    }
}

MB_ALWAYS_INLINE void mb_flush(const struct mb_policy *policy, const void *at)
{
    policy = MB_POLICY(policy);
    if (policy->discipline == MB_SFF)
        return;
    mb_flush_now(policy, at);
    if (policy->discipline == MB_FF)
        mb_fence_now(policy);
}

/* Follows a flush after which the index has no fence. */
MB_ALWAYS_INLINE void mb_fence_added(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    if (policy->added_fence != MB_NO_FENCE)
        mb_fence_by(policy, policy->added_fence);
}

/* Of every line that the bytes touch; a fence is to follow. */
MB_ALWAYS_INLINE void mb_flush_all(const struct mb_policy *policy, const void *at, size_t bytes)
{
    for (uintptr_t line = mb_line_of(at); line < (uintptr_t)at + bytes; line += MB_LINE) {
        if (line != mb_line_of(at))
            mb_fence_added(policy);
        mb_flush(policy, (const void *)line);
    }
}

/* Follows a flush always: with `ff` and `sff` it has been already. */
MB_ALWAYS_INLINE void mb_fence(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    if (policy->discipline != MB_FF && policy->discipline != MB_SFF)
        mb_fence_now(policy);
}

/* What the paper's program does and its consistency does not need: see `optimized`. */
MB_ALWAYS_INLINE void mb_flush_extra(const struct mb_policy *policy, const void *at)
{
    policy = MB_POLICY(policy);
    if (policy->discipline != MB_OPTIMIZED)
        mb_flush(policy, at);
}

MB_ALWAYS_INLINE void mb_fence_added_extra(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    if (policy->discipline != MB_OPTIMIZED)
        mb_fence_added(policy);
}

MB_ALWAYS_INLINE void mb_fence_extra(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    if (policy->discipline != MB_OPTIMIZED)
        mb_fence(policy);
}

/*
 * Is a policy no more than instructions where the index has them? For `mb_designed`, a copy whose
 * other members are constants, the compiler leaves all other cases out of an inlined function.
 */
MB_ALWAYS_INLINE bool mb_is_designed(const struct mb_policy *policy)
{
    policy = MB_POLICY(policy);
    return policy->discipline == MB_DESIGNED && !policy->medium;
}

MB_ALWAYS_INLINE struct mb_policy mb_designed(const struct mb_policy *policy)
{
    return (struct mb_policy){
        .flush = policy->flush, .fence = policy->fence, .added_fence = policy->added_fence};
}

MB_ALWAYS_INLINE void mb_commit(const struct mb_policy *policy, uint64_t *to, uint64_t value)
{
    mb_put(policy, to, value);
    mb_flush(policy, to);
    mb_fence(policy);
}

/* Durable sooner or later: nothing depends on when. */
MB_ALWAYS_INLINE void mb_commit_extra(const struct mb_policy *policy, uint64_t *to, uint64_t value)
{
    mb_put(policy, to, value);
    mb_flush_extra(policy, to);
    mb_fence_extra(policy);
}

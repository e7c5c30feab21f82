/*
 * One atomic instruction for each access of a span.
 *
 *   {"kind": "atomic", "operation": "compare_and_swap", "pattern": "random", …}
 *
 * A compare-and-swap takes the line for writing whether or not it finds what it expects, so that a
 * failed one costs as much as one that succeeds. Both are full barriers on x86-64. On arm64 they are
 * the pair of exclusive load and store that every processor has.
 */
#include "atomic.h"

#include "ops.h"

#if defined(__x86_64__)
MB_INLINE uint64_t add_do(uint64_t *word)
{
    uint64_t value = 1;
    __asm__ volatile("lock xaddq %0, %1" : "+r"(value), "+m"(*word)::"memory", "cc");
    return value;
}

MB_INLINE bool swap_do(uint64_t *word, uint64_t *seen)
{
    uint64_t found = *seen;
    bool swapped;
    __asm__ volatile("lock cmpxchgq %3, %1"
                     : "+a"(found), "+m"(*word), "=@ccz"(swapped)
                     : "r"(*seen + 1)
                     : "memory");
    *seen = swapped ? *seen + 1 : found;
    return swapped;
}
#else
MB_INLINE uint64_t add_do(uint64_t *word)
{
    uint64_t value, sum;
    uint32_t failed;
    __asm__ volatile("1:\n\tldaxr %0, %3\n\tadd %1, %0, #1\n\tstlxr %w2, %1, %3\n\tcbnz %w2, 1b"
                     : "=&r"(value), "=&r"(sum), "=&r"(failed), "+Q"(*word)::"memory");
    return value;
}

MB_INLINE bool swap_do(uint64_t *word, uint64_t *seen)
{
    uint64_t found;
    uint32_t failed = 1;
    __asm__ volatile("1:\n\tldaxr %0, %2\n\tcmp %0, %3\n\tb.ne 2f\n\tstlxr %w1, %4, %2\n\t"
                     "cbnz %w1, 1b\n2:"
                     : "=&r"(found), "+&r"(failed), "+Q"(*word)
                     : "r"(*seen), "r"(*seen + 1)
                     : "memory", "cc");
    bool swapped = found == *seen;
    *seen = swapped ? *seen + 1 : found;
    return swapped;
}
#endif

static uint64_t MB_FOR(atomic_add)(const struct mb_span *span, uint64_t *seen)
{
    for (uint64_t i = 0; i < span->count; i++)
        *seen = add_do((uint64_t *)(void *)mb_span_at(span, i));
    return span->count;
}

static uint64_t MB_FOR(atomic_swap)(const struct mb_span *span, uint64_t *seen)
{
    uint64_t swapped = 0, expected = *seen;
    for (uint64_t i = 0; i < span->count; i++)
        swapped += swap_do((uint64_t *)(void *)mb_span_at(span, i), &expected);
    *seen = expected;
    return swapped;
}

mb_atomic_loop *MB_FOR(mb_atomic)(enum mb_atomic operation)
{
    return operation == MB_FETCH_AND_ADD ? MB_FOR(atomic_add) : MB_FOR(atomic_swap);
}

/*
 * One operation between two stamps, for every access, flush and fence.
 *
 *   {"kind": "latency", "operation": "store", "flush": "clwb", "fence": "sfence",
 *    "access_bytes": 64, "pattern": "random", …}
 *
 * Each combination is a function of its own: between the stamps stand the operation's
 * instructions, and of the questions which ones only the loop over more than one line. The
 * stamps wait (kernel.h): the first until what prepared the lines is done, the second until
 * the operation has left the core's buffers.
 */
#include "timed.h"

#include "ops.h"

#if defined(__x86_64__)
#define MB_WORD_LOAD "movq %1, %0"
#define MB_WORD_STORE "movq %1, %0"
#else
#define MB_WORD_LOAD "ldr %0, %1"
#define MB_WORD_STORE "str %1, %0"
#endif

MB_INLINE void words_do(enum mb_access access, enum mb_flush flush, bool flush_each_line, char *at,
                        uint64_t bytes)
{
    const uint64_t stored = MB_STORED_BYTE * UINT64_C(0x0101010101010101);
    for (uint64_t i = 0; i < bytes; i += MB_LINE) {
#pragma GCC unroll 8
        for (uint64_t word = 0; word < MB_LINE; word += sizeof stored) {
            uint64_t *place = (uint64_t *)(void *)(at + i + word);
            uint64_t value;
            if (access == MB_STORE)
                __asm__ volatile(MB_WORD_STORE : "=m"(*place) : "r"(stored));
            else
                __asm__ volatile(MB_WORD_LOAD : "=r"(value) : "m"(*place));
        }
        if (flush_each_line)
            mb_line_flush(at + i, flush);
    }
    if (flush != MB_NO_FLUSH && !flush_each_line)
        for (uint64_t i = 0; i < bytes; i += MB_LINE)
            mb_line_flush(at + i, flush);
}

/* Not inlined: it is not what is timed. The address that the operation is to touch. */
static __attribute__((noinline)) char *prepare(struct mb_timed *timed, char *at)
{
    mb_vector value = mb_stored();
    if (timed->before == MB_LOADED) {
        mb_access_do(MB_LOAD, MB_NO_FLUSH, false, at, timed->bytes, 1, value);
    } else if (timed->before == MB_FLUSHED) {
        mb_access_do(MB_EMPTY, MB_CLFLUSH, false, at, timed->bytes, 1, value);
    } else if (timed->before == MB_WRITTEN) {
        if (timed->written_by == MB_NTSTORE)
            mb_access_do(MB_NTSTORE, MB_NO_FLUSH, false, at, timed->bytes, 1, value);
        else
            mb_access_do(MB_STORE, MB_NO_FLUSH, false, at, timed->bytes, 1, value);
        for (uint64_t i = 0; i < timed->bytes; i += MB_LINE)
            mb_line_flush(at + i, timed->written_flush);
        mb_fence_do(MB_SFENCE);
        if (timed->distance > 0) {
            char *oldest = timed->written[timed->at];
            timed->written[timed->at] = at;
            timed->at = timed->at + 1 == timed->distance ? 0 : timed->at + 1;
            return oldest;
        }
    }
    return at;
}

MB_INLINE void timed_do(enum mb_access access, enum mb_flush flush, enum mb_fence fence,
                        bool flush_each_line, bool words, struct mb_timed *timed,
                        uint64_t *cycles)
{
    const uint64_t bytes = timed->bytes;
    for (uint64_t i = 0; i < timed->span.count; i++) {
        char *at = prepare(timed, mb_span_at(&timed->span, i));
        mb_vector value = mb_stored();
        uint64_t begin = mb_clock_begin();
        if (words)
            words_do(access, flush, flush_each_line, at, bytes);
        else
            mb_access_do(access, flush, flush_each_line, at, bytes, 1, value);
        mb_fence_do(fence);
        cycles[i] = mb_clock_end() - begin;
    }
}

#define MB_TIMED_ALL(X)                    \
    X(empty, MB_EMPTY, MB_NO_FLUSH, false) \
    MB_OPERATIONS(X)

#define MB_TIMED_ONE(name, fence, access, flush, each, words)                    \
    static void MB_FOR(timed_##name)(struct mb_timed * timed, uint64_t * cycles) \
    {                                                                            \
        timed_do(access, flush, fence, each, words, timed, cycles);              \
    }
#define MB_TIMED_FENCES(name, access, flush, each, words)              \
    MB_TIMED_ONE(name, MB_NO_FENCE, access, flush, each, words)        \
    MB_TIMED_ONE(name##_sfence, MB_SFENCE, access, flush, each, words) \
    MB_TIMED_ONE(name##_mfence, MB_MFENCE, access, flush, each, words)
#define MB_TIMED_VECTORS(name, access, flush, each) \
    MB_TIMED_FENCES(name, access, flush, each, false)
#define MB_TIMED_WORDS(name, access, flush, each) \
    MB_TIMED_FENCES(name##_words, access, flush, each, true)
MB_TIMED_ALL(MB_TIMED_VECTORS)
MB_CACHED_OPERATIONS(MB_TIMED_WORDS)

static mb_timed_loop *const loops[2][MB_ACCESSES][MB_FLUSHES][2][MB_FENCES] = {
#define MB_TIMED_ROW(name, words, access, flush, each)    \
    [words][access][flush][each] = {MB_FOR(timed_##name), \
                                    MB_FOR(timed_##name##_sfence), MB_FOR(timed_##name##_mfence)},
#define MB_TIMED_VECTOR_ROW(name, access, flush, each) \
    MB_TIMED_ROW(name, false, access, flush, each)
#define MB_TIMED_WORD_ROW(name, access, flush, each) \
    MB_TIMED_ROW(name##_words, true, access, flush, each)
    MB_TIMED_ALL(MB_TIMED_VECTOR_ROW) MB_CACHED_OPERATIONS(MB_TIMED_WORD_ROW)
};

mb_timed_loop *MB_FOR(mb_timed)(const struct mb_operation *operation, bool words)
{
    return loops[words][operation->access][operation->flush][operation->flush_each_line]
                [operation->fence];
}

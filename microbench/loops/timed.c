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

/* Not inlined: it is not what is timed. */
static __attribute__((noinline)) void prepare(const struct mb_timed *timed, char *at)
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
    }
}

MB_INLINE void timed_do(enum mb_access access, enum mb_flush flush, enum mb_fence fence,
                        bool flush_each_line, const struct mb_timed *timed, uint64_t *cycles)
{
    const uint64_t bytes = timed->bytes;
    for (uint64_t i = 0; i < timed->span.count; i++) {
        char *at = mb_span_at(&timed->span, i);
        prepare(timed, at);
        mb_vector value = mb_stored();
        uint64_t begin = mb_clock_begin();
        mb_access_do(access, flush, flush_each_line, at, bytes, 1, value);
        mb_fence_do(fence);
        cycles[i] = mb_clock_end() - begin;
    }
}

#define MB_TIMED_ALL(X)                    \
    X(empty, MB_EMPTY, MB_NO_FLUSH, false) \
    MB_OPERATIONS(X)

#define MB_TIMED_ONE(name, fence, access, flush, each)                                 \
    static void MB_FOR(timed_##name)(const struct mb_timed *timed, uint64_t *cycles)   \
    {                                                                                  \
        timed_do(access, flush, fence, each, timed, cycles);                           \
    }
#define MB_TIMED_FENCES(name, access, flush, each)             \
    MB_TIMED_ONE(name, MB_NO_FENCE, access, flush, each)       \
    MB_TIMED_ONE(name##_sfence, MB_SFENCE, access, flush, each) \
    MB_TIMED_ONE(name##_mfence, MB_MFENCE, access, flush, each)
MB_TIMED_ALL(MB_TIMED_FENCES)

static mb_timed_loop *const loops[MB_ACCESSES][MB_FLUSHES][2][MB_FENCES] = {
#define MB_TIMED_ROW(name, access, flush, each) \
    [access][flush][each] = {MB_FOR(timed_##name), MB_FOR(timed_##name##_sfence), \
                             MB_FOR(timed_##name##_mfence)},
    MB_TIMED_ALL(MB_TIMED_ROW)
};

mb_timed_loop *MB_FOR(mb_timed)(const struct mb_operation *operation)
{
    return loops[operation->access][operation->flush][operation->flush_each_line][operation->fence];
}

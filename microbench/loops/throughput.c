/*
 * The loops of kernels/throughput.c, once for each instruction set (ops.h).
 *
 * Each is one function of nothing but its accesses: what it executes is known when it is
 * compiled, and an access of one line, the common small one, has no inner loop.
 */
#include "throughput.h"
#include "ops.h"

MB_INLINE uint64_t walk(const struct mb_span *span, uint64_t bytes, uint64_t pieces,
                        uint64_t group, uint64_t since, enum mb_access access,
                        enum mb_flush flush, bool each_line, enum mb_fence fence,
                        bool scattered)
{
    mb_vector value = mb_stored();
    struct mb_span local = *span;
    char *at = local.base;
    for (uint64_t i = 0; i < local.count; i++) {
        if (scattered)
            at = mb_span_at(&local, i);
        if (fence == MB_NO_FENCE) {
            mb_access_do(access, flush, each_line, at, bytes * pieces, value);
        } else {
            for (uint64_t piece = 0; piece < pieces; piece++) {
                mb_access_do(access, flush, each_line, at + piece * bytes, bytes, value);
                if (++since < group)
                    continue;
                mb_fence_do(fence);
                since = 0;
            }
        }
        at += local.step_bytes;
    }
    return since;
}

/* The four shapes that are worth a loop of their own. */
MB_INLINE uint64_t dispatch(const struct mb_span *span, const struct mb_shape *shape,
                            uint64_t since, enum mb_access access, enum mb_flush flush,
                            bool each_line, enum mb_fence fence)
{
    bool one_line = shape->piece_bytes == MB_LINE && shape->pieces == 1 &&
                    (fence == MB_NO_FENCE || shape->group == 1);
    if (span->lines)
        return one_line ? walk(span, MB_LINE, 1, 1, 0, access, flush, each_line, fence, true)
                        : walk(span, shape->piece_bytes, shape->pieces, shape->group, since,
                               access, flush, each_line, fence, true);
    return one_line ? walk(span, MB_LINE, 1, 1, 0, access, flush, each_line, fence, false)
                    : walk(span, shape->piece_bytes, shape->pieces, shape->group, since,
                           access, flush, each_line, fence, false);
}

#define LOOP(name, ...)                                                                      \
    static uint64_t name(const struct mb_span *span, const struct mb_shape *shape,           \
                         uint64_t since)                                                     \
    {                                                                                        \
        return dispatch(span, shape, since, __VA_ARGS__);                                    \
    }
#define FENCED_LOOPS(name, ...)                                                              \
    LOOP(name, __VA_ARGS__, MB_NO_FENCE)                                                     \
    LOOP(name##_sfence, __VA_ARGS__, MB_SFENCE)                                              \
    LOOP(name##_mfence, __VA_ARGS__, MB_MFENCE)

FENCED_LOOPS(load, MB_LOAD, MB_NO_FLUSH, false)
FENCED_LOOPS(ntload, MB_NTLOAD, MB_NO_FLUSH, false)
FENCED_LOOPS(store, MB_STORE, MB_NO_FLUSH, false)
FENCED_LOOPS(store_clwb, MB_STORE, MB_CLWB, false)
FENCED_LOOPS(store_clwb_line, MB_STORE, MB_CLWB, true)
FENCED_LOOPS(store_clflushopt, MB_STORE, MB_CLFLUSHOPT, false)
FENCED_LOOPS(store_clflushopt_line, MB_STORE, MB_CLFLUSHOPT, true)
FENCED_LOOPS(store_clflush, MB_STORE, MB_CLFLUSH, false)
FENCED_LOOPS(store_clflush_line, MB_STORE, MB_CLFLUSH, true)
FENCED_LOOPS(ntstore, MB_NTSTORE, MB_NO_FLUSH, false)

#define FENCED(name)                                                                         \
    {                                                                                        \
        [MB_NO_FENCE] = name, [MB_SFENCE] = name##_sfence, [MB_MFENCE] = name##_mfence       \
    }

const mb_loops MB_FOR(mb_loops) = {
    [MB_LOAD] = {[MB_NO_FLUSH] = {FENCED(load)}},
    [MB_NTLOAD] = {[MB_NO_FLUSH] = {FENCED(ntload)}},
    [MB_STORE] = {[MB_NO_FLUSH] = {FENCED(store)},
                  [MB_CLWB] = {FENCED(store_clwb), FENCED(store_clwb_line)},
                  [MB_CLFLUSHOPT] = {FENCED(store_clflushopt), FENCED(store_clflushopt_line)},
                  [MB_CLFLUSH] = {FENCED(store_clflush), FENCED(store_clflush_line)}},
    [MB_NTSTORE] = {[MB_NO_FLUSH] = {FENCED(ntstore)}},
};

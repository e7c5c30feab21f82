/*
 * The loops of kernels/throughput.c, once for each instruction set (ops.h).
 *
 * Each is one function of nothing but its accesses: what it executes is known when it is
 * compiled, and the common small accesses have no inner loop.
 */
#include "ops.h"
#include "throughput.h"

MB_INLINE uint64_t walk(const struct mb_span *span, uint64_t bytes, unsigned step,
                        uint64_t pieces, uint64_t group, uint64_t since, enum mb_access access,
                        enum mb_flush flush, bool each_line, enum mb_fence fence,
                        bool scattered)
{
    mb_vector value = mb_stored();
    struct mb_span local = *span;
    char *at = local.base;
    for (uint64_t i = 0; i < local.count; i++) {
        if (scattered)
            at = local.scattered[i];
        for (uint64_t piece = 0; piece < pieces; piece++) {
            mb_access_do(access, flush, each_line, at + piece * bytes, bytes, step, value);
            if (fence == MB_NO_FENCE || ++since < group)
                continue;
            mb_fence_do(fence);
            since = 0;
        }
        at += local.step_bytes;
    }
    return since;
}

enum { IN_A_ROW = 8 };

/*
 * One line each, with a fence after each or none. Without fences eight to a round: with as
 * many instructions again around each load, fewer misses fit into the core's window.
 */
MB_INLINE uint64_t walk_lines(const struct mb_span *span, enum mb_access access,
                              enum mb_flush flush, bool each_line, enum mb_fence fence,
                              bool scattered)
{
    if (fence != MB_NO_FENCE)
        return walk(span, MB_LINE, 1, 1, 1, 0, access, flush, each_line, fence, scattered);
    mb_vector value = mb_stored();
    struct mb_span local = *span;
    char *const *next = local.scattered, *at = local.base;
    uint64_t left = local.count;
    for (; left >= IN_A_ROW; left -= IN_A_ROW) {
        MB_UNROLL
        for (int i = 0; i < IN_A_ROW; i++, at += local.step_bytes)
            mb_access_do(access, flush, each_line, scattered ? next[i] : at, MB_LINE, 1, value);
        if (scattered)
            next += IN_A_ROW;
    }
    for (; left > 0; left--, at += local.step_bytes)
        mb_access_do(access, flush, each_line, scattered ? *next++ : at, MB_LINE, 1, value);
    return 0;
}

#define STRAIGHT(lines)                                                                      \
    case (lines) * MB_LINE:                                                                  \
        return walk(span, (lines) * MB_LINE, lines, 1, 1, 0, access, flush, each_line, fence, \
                    scattered)

/*
 * The shapes that are worth a loop of their own, by the bytes of an access with a fence after
 * each or none. Around a loop within the loop fewer misses fit into the core's window: random
 * reads of 192 bytes then get half of what those of 128 and of 256 get. So reads of up to 16
 * lines are straight, and stores, which wait for nothing, of one, two, and four.
 *
 * Longer reads go by two lines: of eight loads in a row, two threads of one core get less
 * than of two (by 4 % on Zen 5: they are ahead of its prefetcher); one thread gets the same.
 */
MB_INLINE uint64_t by_size(const struct mb_span *span, const struct mb_shape *shape,
                           uint64_t since, enum mb_access access, enum mb_flush flush,
                           bool each_line, enum mb_fence fence, bool scattered)
{
    bool plain = shape->pieces == 1 && (fence == MB_NO_FENCE || shape->group == 1);
    bool load = access == MB_LOAD || access == MB_NTLOAD;
    uint64_t bytes = shape->piece_bytes;
    unsigned step = load ? 2 : 8;
    if (!plain)
        return walk(span, bytes, 1, shape->pieces, shape->group, since, access, flush, each_line,
                    fence, scattered);
    switch (bytes) {
    case MB_LINE:
        return walk_lines(span, access, flush, each_line, fence, scattered);
        STRAIGHT(2);
        STRAIGHT(4);
    }
    if (load)
        switch (bytes) {
            STRAIGHT(3);
            STRAIGHT(5);
            STRAIGHT(6);
            STRAIGHT(7);
            STRAIGHT(8);
            STRAIGHT(9);
            STRAIGHT(10);
            STRAIGHT(11);
            STRAIGHT(12);
            STRAIGHT(13);
            STRAIGHT(14);
            STRAIGHT(15);
            STRAIGHT(16);
        }
    if (bytes % (step * MB_LINE) == 0)
        return walk(span, bytes, step, 1, 1, 0, access, flush, each_line, fence, scattered);
    return walk(span, bytes, 1, 1, 1, 0, access, flush, each_line, fence, scattered);
}

/* Whether addresses are computed or come from the ring is a question before the loop. */
#define LOOP(name, ...)                                                            \
    static uint64_t name(const struct mb_span *span, const struct mb_shape *shape, \
                         uint64_t since)                                           \
    {                                                                              \
        if (span->scattered)                                                       \
            return by_size(span, shape, since, __VA_ARGS__, true);                 \
        return by_size(span, shape, since, __VA_ARGS__, false);                    \
    }
#define FENCED_LOOPS(name, access, flush, each)         \
    LOOP(name, access, flush, each, MB_NO_FENCE)        \
    LOOP(name##_sfence, access, flush, each, MB_SFENCE) \
    LOOP(name##_mfence, access, flush, each, MB_MFENCE)
MB_OPERATIONS(FENCED_LOOPS)

#define FENCED(name, access, flush, each) \
    [access][flush][each] = {name, name##_sfence, name##_mfence},
const mb_loops MB_FOR(mb_loops) = {MB_OPERATIONS(FENCED)};

/* The loops of independent operations, by what they execute. */
#pragma once

#include "../kernel.h"

/* An access is `pieces` times `piece_bytes`; after every `group` pieces comes the fence. */
struct mb_shape {
    uint64_t piece_bytes, pieces, group;
};

/* Accesses all of the span; `since`: pieces after the last fence, now and afterwards. */
typedef uint64_t (*mb_loop)(const struct mb_span *span, const struct mb_shape *shape,
                            uint64_t since);

/* [access][flush][each line][fence]; NULL where it makes no sense. */
typedef mb_loop mb_loops[MB_EMPTY][MB_FLUSHES][2][MB_FENCES];

extern const mb_loops mb_loops_sse2, mb_loops_avx2, mb_loops_avx512, mb_loops_neon;

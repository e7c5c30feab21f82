/* The loops of independent operations, by what they execute. */
#ifndef MICROBENCH_LOOPS_THROUGHPUT_H
#define MICROBENCH_LOOPS_THROUGHPUT_H

#include "../kernel.h"

/* Accesses all of the span, each of `bytes` and with its fence. */
typedef void (*mb_loop)(const struct mb_span *span, uint64_t bytes);

/* [access][flush][each line][fence]; NULL where it makes no sense. */
typedef mb_loop mb_loops[MB_EMPTY][MB_FLUSHES][2][MB_FENCES];

extern const mb_loops mb_loops_sse2, mb_loops_avx2, mb_loops_avx512;

#endif

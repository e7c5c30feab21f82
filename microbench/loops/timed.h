/* Operations timed one by one: loops/timed.c, once for each instruction set. */
#ifndef MICROBENCH_LOOPS_TIMED_H
#define MICROBENCH_LOOPS_TIMED_H

#include "../kernel.h"

/* What is done to the lines of an operation right before its clock starts. */
enum mb_before {
    MB_AS_IS,   /* nothing */
    MB_LOADED,  /* loaded: a store finds them in the cache */
    MB_FLUSHED, /* clflush: a load finds them in memory */
    MB_WRITTEN, /* written and fenced */
};

struct mb_timed {
    struct mb_span span;
    uint64_t bytes; /* of an operation */
    enum mb_before before;
    /* MB_WRITTEN: how. */
    enum mb_access written_by;
    enum mb_flush written_flush;
};

/* cycles: of each operation of the span. */
typedef void mb_timed_loop(const struct mb_timed *timed, uint64_t *cycles);

mb_timed_loop *mb_timed_loop_of(const struct mb_operation *operation);

/* Each instruction set's own, by its file. */
mb_timed_loop *mb_timed_sse2(const struct mb_operation *operation);
mb_timed_loop *mb_timed_avx2(const struct mb_operation *operation);
mb_timed_loop *mb_timed_avx512(const struct mb_operation *operation);

#endif

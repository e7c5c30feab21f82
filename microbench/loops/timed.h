/* Operations timed one by one: loops/timed.c, once for each instruction set. */
#pragma once

#include "../kernel.h"

/* What is done to the lines of an operation right before its clock starts. */
enum mb_before {
    MB_AS_IS,   /* nothing */
    MB_LOADED,  /* loaded: a store finds them in the cache */
    MB_FLUSHED, /* clflush: a load finds them in memory */
    MB_WRITTEN, /* written and fenced, `distance` operations earlier */
};

struct mb_timed {
    struct mb_span span;
    uint64_t bytes; /* of an operation */
    enum mb_before before;
    /* MB_WRITTEN: how, and the addresses that were written and are still to be read. */
    enum mb_access written_by;
    enum mb_flush written_flush;
    char **written;
    uint64_t distance, at; /* of `written`: how many, and which is the oldest */
};

/* cycles: of each operation of the span. */
typedef void mb_timed_loop(struct mb_timed *timed, uint64_t *cycles);

/* NULL: no such loop (8 bytes at a time, `words`, are load and store alone). */
mb_timed_loop *mb_timed_loop_of(const struct mb_operation *operation, bool words);

/* Each instruction set's own, by its file. */
mb_timed_loop *mb_timed_sse2(const struct mb_operation *operation, bool words);
mb_timed_loop *mb_timed_avx2(const struct mb_operation *operation, bool words);
mb_timed_loop *mb_timed_avx512(const struct mb_operation *operation, bool words);
mb_timed_loop *mb_timed_neon(const struct mb_operation *operation, bool words);

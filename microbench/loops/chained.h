/* The links of a chain: loops/chained.c, once for each instruction set. */
#pragma once

#include "../kernel.h"

/*
 * Reads or writes `bytes` at `at`. A read's value comes of every vector it loaded, so that
 * whatever needs it waits for all of them; a write hands `value` on.
 */
typedef uint64_t mb_link_do(char *at, uint64_t bytes, uint64_t value);

struct mb_link {
    mb_link_do *run;
    uint64_t bytes;
    int64_t offset_bytes;
    bool read;
};

struct mb_links {
    mb_link_do *read, *write[4]; /* none, cache, cacheinv, nocache */
};
extern const struct mb_links mb_links_sse2, mb_links_avx2, mb_links_avx512, mb_links_neon;

static inline const struct mb_links *mb_links_of(enum mb_isa isa)
{
#if defined(__x86_64__)
    return isa == MB_AVX512 ? &mb_links_avx512 : isa == MB_AVX2 ? &mb_links_avx2 : &mb_links_sse2;
#else
    return &mb_links_neon;
#endif
}

/* `at`, but only once `value` is there: it is added as the zero that it is not known to be. */
static inline char *mb_depend(char *at, uint64_t value)
{
#if defined(__x86_64__)
    __asm__ volatile("andq $0, %0" : "+r"(value)::"cc"); /* unlike xor: it waits for its operand */
#else
    __asm__ volatile("and %0, %0, xzr" : "+r"(value));
#endif
    return at + value;
}

static inline void mb_used(uint64_t value)
{
    __asm__ volatile("" ::"r"(value));
}

/*
 * How bytes are made durable: write, flush what was written, wait. The log writers and the page
 * flush are written once over these three verbs; each medium gives them its instructions, and a
 * test gives them a memory that forgets what a power cut would take.
 *
 * Sizes and addresses are multiples of a word (8 bytes): that is what the hardware writes
 * whole. Nothing smaller may carry a decision of recovery.
 */
#pragma once

#include "job.h"

#define MB_WORD 8
/* Inlined with a medium that is a constant, its verbs are instructions, not calls. */
#define MB_ALWAYS_INLINE static inline __attribute__((always_inline))

struct mb_medium {
    const char *name;
    void (*write)(void *to, const void *from, size_t bytes);
    void (*flush)(const void *at, size_t bytes); /* of every line that the bytes touch */
    void (*fence)(void);
};

MB_ALWAYS_INLINE void mb_persist(const struct mb_medium *medium, const void *at, size_t bytes)
{
    medium->flush(at, bytes);
    medium->fence();
}

MB_ALWAYS_INLINE void mb_write_word(const struct mb_medium *medium, uint64_t *to, uint64_t value)
{
    medium->write(to, &value, sizeof value);
}

MB_ALWAYS_INLINE uintptr_t mb_line_of(const void *at)
{
    return (uintptr_t)at & ~(uintptr_t)(MB_LINE - 1);
}

#if defined(__x86_64__)
#include <emmintrin.h>

MB_ALWAYS_INLINE void mb_store_write(void *to, const void *from, size_t bytes)
{
    char *at = to;
    const char *source = from;
    size_t done = 0;
    for (; done + 16 <= bytes; done += 16) {
        __m128i lane = _mm_loadu_si128((const __m128i *)(const void *)(source + done));
        __asm__ volatile("movdqu %1, %0" : "=m"(*(char(*)[16])(at + done)) : "x"(lane));
    }
    if (done < bytes) {
        uint64_t word;
        memcpy(&word, source + done, sizeof word);
        __asm__ volatile("movq %1, %0" : "=m"(*(char(*)[8])(at + done)) : "r"(word));
    }
}

MB_ALWAYS_INLINE void mb_ntstore_write(void *to, const void *from, size_t bytes)
{
    char *at = to;
    const char *source = from;
    size_t done = 0;
    while (done < bytes) {
        if ((uintptr_t)(at + done) % 16 == 0 && done + 16 <= bytes) {
            __m128i lane = _mm_loadu_si128((const __m128i *)(const void *)(source + done));
            __asm__ volatile("movntdq %1, %0" : "=m"(*(char(*)[16])(at + done)) : "x"(lane));
            done += 16;
        } else {
            uint64_t word;
            memcpy(&word, source + done, sizeof word);
            __asm__ volatile("movnti %1, %0" : "=m"(*(char(*)[8])(at + done)) : "r"(word));
            done += sizeof word;
        }
    }
}

#define MB_FLUSH(name, instruction)                                                       \
    MB_ALWAYS_INLINE void mb_##name##_flush(const void *at, size_t bytes)                        \
    {                                                                                     \
        for (uintptr_t line = mb_line_of(at); line < (uintptr_t)at + bytes; line += MB_LINE) \
            __asm__ volatile(instruction " %0" : "+m"(*(char *)line));                    \
    }
MB_FLUSH(clwb, "clwb")
MB_FLUSH(clflushopt, "clflushopt")
MB_FLUSH(clflush, "clflush")
#undef MB_FLUSH

MB_ALWAYS_INLINE void mb_store_fence(void)
{
    __asm__ volatile("sfence" ::: "memory");
}

#elif defined(__aarch64__)

MB_ALWAYS_INLINE void mb_store_write(void *to, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += MB_WORD) {
        uint64_t word;
        memcpy(&word, (const char *)from + done, sizeof word);
        __asm__ volatile("str %1, %0" : "=m"(*(char(*)[8])((char *)to + done)) : "r"(word));
    }
}

/* arm64 has pairs with a non-temporal hint. */
MB_ALWAYS_INLINE void mb_ntstore_write(void *to, const void *from, size_t bytes)
{
    size_t done = 0;
    for (; done + 16 <= bytes; done += 16) {
        uint64_t words[2];
        memcpy(words, (const char *)from + done, sizeof words);
        __asm__ volatile("stnp %1, %2, [%3]"
                         : "=m"(*(char(*)[16])((char *)to + done))
                         : "r"(words[0]), "r"(words[1]), "r"((char *)to + done));
    }
    mb_store_write((char *)to + done, (const char *)from + done, bytes - done);
}

/* The hint of stnp promises nothing, so that its lines are cleaned as well. */
MB_ALWAYS_INLINE void mb_clwb_flush(const void *at, size_t bytes)
{
    for (uintptr_t line = mb_line_of(at); line < (uintptr_t)at + bytes; line += MB_LINE)
        mb_clean_to_persistence((const void *)line);
}

/* To the point of coherency alone. */
MB_ALWAYS_INLINE void mb_clflush_flush(const void *at, size_t bytes)
{
    for (uintptr_t line = mb_line_of(at); line < (uintptr_t)at + bytes; line += MB_LINE)
        __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
}
#define mb_clflushopt_flush mb_clflush_flush

MB_ALWAYS_INLINE void mb_store_fence(void)
{
    __asm__ volatile("dsb sy" ::: "memory");
}

#else
#error "microbench knows x86-64 and arm64"
#endif

/* Nothing to flush: the stores went past the caches, or the caches are durable (eADR). */
MB_ALWAYS_INLINE void mb_no_flush(const void *at, size_t bytes)
{
}

static const struct mb_medium mb_medium_none = {
    "none", mb_store_write, mb_no_flush, mb_store_fence};
static const struct mb_medium mb_medium_clwb = {
    "clwb", mb_store_write, mb_clwb_flush, mb_store_fence};
static const struct mb_medium mb_medium_clflushopt = {
    "clflushopt", mb_store_write, mb_clflushopt_flush, mb_store_fence};
static const struct mb_medium mb_medium_clflush = {
    "clflush", mb_store_write, mb_clflush_flush, mb_store_fence};
#if defined(__x86_64__)
#define MB_NTSTORE_IS_CLEANED false
static const struct mb_medium mb_medium_ntstore = {
    "ntstore", mb_ntstore_write, mb_no_flush, mb_store_fence};
#else
#define MB_NTSTORE_IS_CLEANED true
static const struct mb_medium mb_medium_ntstore = {
    "ntstore", mb_ntstore_write, mb_clwb_flush, mb_store_fence};
#endif

/*
 * One line of 64 bytes, loaded, stored, flushed, with the vectors of one instruction set.
 *
 * Files in loops/ are compiled once for each instruction set, with MB_ISA set to its name
 * (sse2, avx2, avx512, neon); what they export is named by MB_FOR(name): name_avx2 …
 *
 * Every instruction that counts is a volatile asm statement: the compiler may neither drop
 * nor merge nor reorder them, whatever it finds out about the values. tests/ reads the
 * compiled loops and counts.
 */
#pragma once

#include "../kernel.h"

#define MB_JOIN_(a, b) a##_##b
#define MB_JOIN(a, b) MB_JOIN_(a, b)
#define MB_FOR(name) MB_JOIN(name, MB_ISA)
#define MB_UNROLL _Pragma("GCC unroll 16")
#define MB_INLINE static inline __attribute__((always_inline, unused))

#define MB_VECTOR_sse2 16
#define MB_VECTOR_avx2 32
#define MB_VECTOR_avx512 64
#define MB_VECTOR_neon 16
#define MB_VECTOR MB_JOIN(MB_VECTOR, MB_ISA)

typedef char mb_vector __attribute__((vector_size(MB_VECTOR), may_alias));
enum { MB_VECTORS_A_LINE = MB_LINE / MB_VECTOR };

#if defined(__x86_64__)

#if MB_VECTOR == 64
#define MB_MOVE "vmovdqa64"
#define MB_MOVE_NT "vmovntdq"
#define MB_MOVE_NTLOAD "vmovntdqa"
#define MB_REGISTER "v"
#elif MB_VECTOR == 32
#define MB_MOVE "vmovdqa"
#define MB_MOVE_NT "vmovntdq"
#define MB_MOVE_NTLOAD "vmovntdqa"
#define MB_REGISTER "x"
#else
#define MB_MOVE "movdqa"
#define MB_MOVE_NT "movntdq"
#define MB_MOVE_NTLOAD "movntdqa" /* SSE4.1: mb_isa_read asks for it */
#define MB_REGISTER "x"
#endif

MB_INLINE void mb_line_load(const char *line)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++) {
        mb_vector value;
        __asm__ volatile(MB_MOVE " %1, %0"
                         : "=" MB_REGISTER(value)
                         : "m"(((const mb_vector *)line)[i]));
    }
}

MB_INLINE void mb_line_ntload(const char *line)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++) {
        mb_vector value;
        __asm__ volatile(MB_MOVE_NTLOAD " %1, %0"
                         : "=" MB_REGISTER(value)
                         : "m"(((const mb_vector *)line)[i]));
    }
}

MB_INLINE void mb_line_store(char *line, mb_vector value)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++)
        __asm__ volatile(MB_MOVE " %1, %0"
                         : "=m"(((mb_vector *)line)[i])
                         : MB_REGISTER(value));
}

MB_INLINE void mb_line_ntstore(char *line, mb_vector value)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++)
        __asm__ volatile(MB_MOVE_NT " %1, %0"
                         : "=m"(((mb_vector *)line)[i])
                         : MB_REGISTER(value));
}

/* The line's address is all a flush needs; the clobber keeps it after the stores. */
MB_INLINE void mb_line_flush(char *line, enum mb_flush flush)
{
    if (flush == MB_CLWB)
        __asm__ volatile("clwb %0" : "+m"(*line)::"memory");
    else if (flush == MB_CLFLUSHOPT)
        __asm__ volatile("clflushopt %0" : "+m"(*line)::"memory");
    else if (flush == MB_CLFLUSH)
        __asm__ volatile("clflush %0" : "+m"(*line)::"memory");
}

MB_INLINE void mb_fence_do(enum mb_fence fence)
{
    if (fence == MB_SFENCE)
        __asm__ volatile("sfence" ::: "memory");
    else if (fence == MB_MFENCE)
        __asm__ volatile("mfence" ::: "memory");
}

#elif defined(__aarch64__)

#define MB_REGISTER "w"

/*
 * The nearest of arm64: clean to the point of persistence (dc cvap) for clwb; clean and
 * invalidate (dc civac) for the two others, which reaches the point of coherency alone, as no
 * instruction that invalidates reaches further; dsb sy for both fences (of stores alone, it would
 * wait for no clean); stnp and ldnp for what is non-temporal, a hint there, which persists nothing.
 */
MB_INLINE void mb_line_load(const char *line)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++) {
        mb_vector value;
        __asm__ volatile("ldr %q0, %1" : "=" MB_REGISTER(value) : "m"(((const mb_vector *)line)[i]));
    }
}

MB_INLINE void mb_line_ntload(const char *line)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i += 2) {
        mb_vector first, second;
        const mb_vector *pair = (const mb_vector *)line + i;
        __asm__ volatile("ldnp %q0, %q1, [%2]"
                         : "=" MB_REGISTER(first), "=" MB_REGISTER(second)
                         : "r"(pair), "m"(pair[0]), "m"(pair[1]));
    }
}

MB_INLINE void mb_line_store(char *line, mb_vector value)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i++)
        __asm__ volatile("str %q1, %0" : "=m"(((mb_vector *)line)[i]) : MB_REGISTER(value));
}

MB_INLINE void mb_line_ntstore(char *line, mb_vector value)
{
    MB_UNROLL
    for (int i = 0; i < MB_VECTORS_A_LINE; i += 2) {
        mb_vector *pair = (mb_vector *)line + i;
        __asm__ volatile("stnp %q2, %q2, [%3]"
                         : "=m"(pair[0]), "=m"(pair[1])
                         : MB_REGISTER(value), "r"(pair));
    }
}

MB_INLINE void mb_line_flush(char *line, enum mb_flush flush)
{
    if (flush == MB_CLWB)
        mb_clean_to_persistence(line);
    else if (flush != MB_NO_FLUSH)
        __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
}

MB_INLINE void mb_fence_do(enum mb_fence fence)
{
    if (fence != MB_NO_FENCE)
        __asm__ volatile("dsb sy" ::: "memory");
}

#endif

/* What is stored: any value does, as long as it is not what fresh pages hold. */
#define MB_STORED_BYTE 0xa5
MB_INLINE mb_vector mb_stored(void)
{
    mb_vector value = (mb_vector){0} + (char)MB_STORED_BYTE;
    __asm__ volatile("" : "+" MB_REGISTER(value)); /* once, before a loop */
    return value;
}

/* The lines from `at` on, `step` of them without a branch in between; bytes: a multiple of that. */
MB_INLINE void mb_lines_do(enum mb_access access, enum mb_flush flush, char *at, uint64_t bytes,
                           unsigned step, mb_vector value)
{
    char *end = at + bytes;
    for (; at < end; at += step * MB_LINE) {
        MB_UNROLL
        for (unsigned i = 0; i < step; i++) {
            char *line = at + i * MB_LINE;
            if (access == MB_LOAD)
                mb_line_load(line);
            else if (access == MB_NTLOAD)
                mb_line_ntload(line);
            else if (access == MB_STORE)
                mb_line_store(line, value);
            else if (access == MB_NTSTORE)
                mb_line_ntstore(line, value);
            mb_line_flush(line, flush);
        }
    }
}

/*
 * One access of `bytes` without its fence. All but `at` and `bytes` are constants of the
 * place where it is inlined, so that nothing of these questions is left in a loop.
 */
MB_INLINE void mb_access_do(enum mb_access access, enum mb_flush flush, bool flush_each_line,
                            char *at, uint64_t bytes, unsigned step, mb_vector value)
{
    mb_lines_do(access, flush_each_line ? flush : MB_NO_FLUSH, at, bytes, step, value);
    if (flush != MB_NO_FLUSH && !flush_each_line)
        mb_lines_do(MB_EMPTY, flush, at, bytes, step, value);
}

/* Every operation that moves bytes: X(name, access, flush, flush_each_line). */
#define MB_FLUSHED(X, flush, which)            \
    X(store_##flush, MB_STORE, which, false)   \
    X(store_##flush##_line, MB_STORE, which, true)
#define MB_CACHED_OPERATIONS(X)                \
    X(load, MB_LOAD, MB_NO_FLUSH, false)       \
    X(store, MB_STORE, MB_NO_FLUSH, false)     \
    MB_FLUSHED(X, clwb, MB_CLWB)               \
    MB_FLUSHED(X, clflushopt, MB_CLFLUSHOPT)   \
    MB_FLUSHED(X, clflush, MB_CLFLUSH)
#define MB_OPERATIONS(X)                       \
    MB_CACHED_OPERATIONS(X)                    \
    X(ntload, MB_NTLOAD, MB_NO_FLUSH, false)   \
    X(ntstore, MB_NTSTORE, MB_NO_FLUSH, false)

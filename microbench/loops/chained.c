/*
 * Links of chains: every byte of a read is loaded, and its value depends on every load.
 *
 * The vectors are or-ed together as they come (in four strands, so that the last one to come
 * costs two or three cycles and not one for each); a word of the result is the value.
 */
#include "chained.h"

#include "ops.h"

#if defined(__x86_64__)
#if MB_VECTOR == 64
#define MB_OR "vporq %1, %0, %0"
#elif MB_VECTOR == 32
#define MB_OR "vpor %1, %0, %0"
#else
#define MB_OR "por %1, %0"
#endif

MB_INLINE void or_line(mb_vector strands[4], const char *line)
{
#pragma GCC unroll 4
    for (int i = 0; i < MB_VECTORS_A_LINE; i++)
        __asm__ volatile(MB_OR
                         : "+" MB_REGISTER(strands[i % 4])
                         : "m"(((const mb_vector *)line)[i]));
}
#else
MB_INLINE void or_line(mb_vector strands[4], const char *line)
{
#pragma GCC unroll 4
    for (int i = 0; i < MB_VECTORS_A_LINE; i++) {
        mb_vector value;
        __asm__ volatile("ldr %q0, %1"
                         : "=" MB_REGISTER(value)
                         : "m"(((const mb_vector *)line)[i]));
        strands[i % 4] |= value;
    }
}
#endif

static uint64_t MB_FOR(chained_read)(char *at, uint64_t bytes, uint64_t value)
{
    mb_vector strands[4] = {mb_stored(), mb_stored(), mb_stored(), mb_stored()};
    typedef uint64_t words __attribute__((vector_size(MB_VECTOR), may_alias));
    for (uint64_t i = 0; i < bytes; i += MB_LINE)
        or_line(strands, at + i);
    words all = (words)(strands[0] | strands[1] | strands[2] | strands[3]);
    return all[0];
}

MB_INLINE uint64_t write_do(enum mb_access access, enum mb_flush flush, enum mb_fence fence,
                            char *at, uint64_t bytes, uint64_t value)
{
    mb_access_do(access, flush, false, at, bytes, 1, mb_stored());
    mb_fence_do(fence);
    return value;
}

#define MB_CHAINED_WRITE(name, access, flush, fence)                                      \
    static uint64_t MB_FOR(chained_##name)(char *at, uint64_t bytes, uint64_t value)      \
    {                                                                                     \
        return write_do(access, flush, fence, at, bytes, value);                          \
    }
MB_CHAINED_WRITE(none, MB_STORE, MB_NO_FLUSH, MB_NO_FENCE)
MB_CHAINED_WRITE(cache, MB_STORE, MB_CLWB, MB_SFENCE)
MB_CHAINED_WRITE(cacheinv, MB_STORE, MB_CLFLUSHOPT, MB_SFENCE)
MB_CHAINED_WRITE(nocache, MB_NTSTORE, MB_NO_FLUSH, MB_SFENCE)

const struct mb_links MB_FOR(mb_links) = {
    MB_FOR(chained_read),
    {MB_FOR(chained_none), MB_FOR(chained_cache), MB_FOR(chained_cacheinv),
     MB_FOR(chained_nocache)},
};

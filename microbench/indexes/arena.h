/*
 * Memory of an index on its tier: handed out from the beginning to the end, by offsets, so that a
 * mapping may lie elsewhere after a restart. Nothing is given back.
 *
 * The border up to which memory may be in use is durable before any of it is; it moves on by
 * whole chunks. Recovery goes on from there, so that a restart loses at most a chunk.
 */
#pragma once

#include "policy.h"

struct mb_arena_header {
    uint64_t border;
    uint64_t unused[7];
};

enum { MB_ARENA_ROOT = sizeof(struct mb_arena_header) };

struct mb_arena {
    char *base; /* on a line */
    uint64_t size_bytes, chunk_bytes;
    uint64_t next; /* offset of the first free byte; below the border */
};

static inline struct mb_arena_header *mb_arena_header(const struct mb_arena *arena)
{
    return (struct mb_arena_header *)(void *)arena->base;
}

static inline void *mb_arena_at(const struct mb_arena *arena, uint64_t offset)
{
    return arena->base + offset;
}

static inline void mb_arena_recover(struct mb_arena *arena)
{
    arena->next = mb_arena_header(arena)->border;
}

/* An offset, a multiple of `align` (a power of two); 0 where there is no room. */
static inline uint64_t mb_arena_take(struct mb_arena *arena, const struct mb_policy *policy,
                                     uint64_t bytes, uint64_t align)
{
    uint64_t offset = (arena->next + align - 1) & ~(align - 1), end = offset + bytes;
    uint64_t *border = &mb_arena_header(arena)->border;
    if (end > arena->size_bytes)
        return 0;
    if (end > *border) {
        uint64_t wanted = (end + arena->chunk_bytes - 1) / arena->chunk_bytes * arena->chunk_bytes;
        mb_put(policy, border, wanted < arena->size_bytes ? wanted : arena->size_bytes);
        mb_flush(policy, border); /* durable with what is put there: one fence for both */
        mb_fence_added(policy);
    }
    arena->next = end;
    return offset;
}

/* An empty one, that begins with the root of an index; false: no room. */
static inline bool mb_arena_open(struct mb_arena *arena, const struct mb_policy *policy,
                                 uint64_t root_bytes)
{
    arena->next = sizeof(struct mb_arena_header);
    mb_put(policy, &mb_arena_header(arena)->border, arena->next); /* the first take moves it on */
    return mb_arena_take(arena, policy, root_bytes, MB_LINE) == MB_ARENA_ROOT;
}

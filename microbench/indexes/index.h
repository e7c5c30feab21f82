/*
 * Persistent indexes of words: what the kernel `index` and the tests need of each.
 *
 * Every change is whole and durable when the function returns; a power cut within it leaves the
 * index, after `recover`, as it was before the change or after it. One thread at a time, but for
 * insert, update, read and remove of an index that has `sharing`.
 */
#ifndef MICROBENCH_INDEXES_INDEX_H
#define MICROBENCH_INDEXES_INDEX_H

#include "arena.h"
#include "sharing.h"

/* The largest key; the smallest is 1. */
#define MB_KEY_MOST (UINT64_MAX - 2)

struct mb_index {
    struct mb_arena arena;
    const struct mb_policy *policy;
    struct mb_sharing *sharing; /* NULL: one thread */
    /* Of a library; and the file where it is to keep the tree, or NULL: in memory. */
    void *tree;
    const char *pool_path;
};

struct mb_index_kind {
    const char *name;
    bool disciplines[MB_DISCIPLINES]; /* which of them differ here */
    bool shares;                      /* with threads, as its paper has it */
    /* An empty one in the arena, whatever lay there; false: no room. */
    bool (*open)(struct mb_index *index);
    /* After a restart: completes or undoes the change that was under way; false: no room. */
    bool (*recover)(struct mb_index *index);
    /* Also of a key that is there. False: no room; then nothing has changed. */
    bool (*insert)(struct mb_index *index, uint64_t key, uint64_t value);
    /* The others: false where the key is not there. */
    bool (*update)(struct mb_index *index, uint64_t key, uint64_t value);
    bool (*read)(const struct mb_index *index, uint64_t key, uint64_t *value);
    bool (*remove)(struct mb_index *index, uint64_t key);
    void (*close)(struct mb_index *index); /* NULL: it has nothing but its arena */
};

extern const struct mb_index_kind mb_level_hash, mb_fast_fair, mb_woart;

/* The index of a shared library (library.c); one library for the whole program. */
extern const struct mb_index_kind mb_library;
bool mb_library_load(const char *path, struct tb_error *error);

#endif

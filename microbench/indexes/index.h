/*
 * Persistent indexes of words: what the kernel `index` and the tests need of each.
 *
 * Every change is whole and durable when the function returns; a power cut within it leaves the
 * index, after `recover`, as it was before the change or after it. One thread at a time, but for
 * insert, update, read and remove of an index that has `sharing`.
 */
#pragma once

#include "arena.h"
#include "sharing.h"

/* The largest key; the smallest is 1. */
#define MB_KEY_MOST (UINT64_MAX - 2)

struct mb_index {
    struct mb_arena arena;
    const struct mb_policy *policy;
    struct mb_sharing *sharing; /* NULL: one thread */
    /* Of a library: its tree, and the file or folder where it is to keep it, or NULL: in memory. */
    const struct mb_library *library;
    void *tree;
    const char *pool_path;
    uint32_t threads; /* that use it */
};

struct mb_index_kind {
    const char *name;
    bool disciplines[MB_DISCIPLINES]; /* which of them differ here */
    bool shares;                      /* with threads, as its paper has it */
    bool adds;                        /* has no update in its paper: it inserts a duplicate */
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

/* The index of a shared library (library.c). */
extern const struct mb_index_kind mb_library_index;
struct mb_library_options;
struct mb_library {
    void *(*create)(const struct mb_library_options *options);
    bool shares; /* declares that threads may share a tree */
    /* Each begins with its word, which repeats in the rest. */
    uint32_t key_bytes, value_bytes;
};
#define MB_LIBRARY_MOST_BYTES 4096
bool mb_library_load(const char *path, struct mb_library *library, struct tb_error *error);
/* Bytes of the file, or of the files in the folder, in which a library keeps its tree. */
uint64_t mb_library_pool_bytes(const char *pool_path);

/*
 * One of our indexes as a library with PiBench's interface (indexes/library.c), as the papers'
 * programs flush: clflush, mfence. It is what `harness rewrite` is measured on. Compiled once for
 * each index:
 *
 *   OWN_SOURCE="../indexes/fast_fair.c" OWN_KIND=mb_fast_fair MB_ONLY_DISCIPLINE=MB_UNAWARE
 */
#ifndef OWN_SOURCE
#define OWN_SOURCE "../indexes/woart.c"
#define OWN_KIND mb_woart
#define OWN_SHARES false
#define MB_ONLY_DISCIPLINE MB_DESIGNED
#endif
#include "native.h"

#include OWN_SOURCE

#include <sys/mman.h>

enum { CHUNK = 64 * 1024 };

/* As g++ lays out the options and an object of a class derived from tree_api. */
struct options {
    size_t key_size, value_size;
    struct {
        const char *at;
        size_t length;
        char local[16];
    } pool_path;
    size_t pool_size, threads;
};
struct tree {
    const void *const *functions;
    struct mb_index index;
    struct mb_sharing sharing;
};

static const struct mb_policy own_policy = {
    .flush = MB_CLFLUSH, .fence = MB_MFENCE, .discipline = MB_ONLY_DISCIPLINE};

static uint64_t word(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void destroy_tree(struct tree *tree) { (void)tree; }

static void remove_tree(struct tree *tree)
{
    munmap(tree->index.arena.base, tree->index.arena.size_bytes);
    free(tree);
}

static bool find_key(struct tree *tree, const char *key, size_t bytes, char *value)
{
    uint64_t found;
    if (bytes != sizeof found || !OWN_KIND.read(&tree->index, word(key), &found))
        return false;
    memcpy(value, &found, sizeof found);
    return true;
}

static bool insert_key(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                       size_t value_bytes)
{
    return key_bytes == 8 && value_bytes == 8 &&
           OWN_KIND.insert(&tree->index, word(key), word(value));
}

static bool update_key(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                       size_t value_bytes)
{
    return key_bytes == 8 && value_bytes == 8 &&
           OWN_KIND.update(&tree->index, word(key), word(value));
}

static bool remove_key(struct tree *tree, const char *key, size_t bytes)
{
    return bytes == 8 && OWN_KIND.remove(&tree->index, word(key));
}

/* Of a new file, or in memory; NULL: no room. */
static char *map_pool(const struct options *options)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, file = -1;
    if (options->pool_path.length) {
        flags = MAP_SHARED;
        file = open(options->pool_path.at, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0 || posix_fallocate(file, 0, (off_t)options->pool_size) != 0) {
            if (file >= 0)
                close(file);
            return NULL;
        }
    }
    char *base = mmap(NULL, options->pool_size, PROT_READ | PROT_WRITE, flags, file, 0);
    if (file >= 0)
        close(file);
    return base == MAP_FAILED ? NULL : base;
}

extern const bool tree_is_thread_safe;
const bool tree_is_thread_safe = OWN_SHARES;
struct tree *create_tree(const struct options *options);
struct tree *create_tree(const struct options *options)
{
    static const void *const functions[] = {destroy_tree, remove_tree, find_key,  insert_key,
                                            update_key,   remove_key,  NULL};
    struct tree *tree = calloc(1, sizeof *tree);
    char *base = tree ? map_pool(options) : NULL;
    if (!base) {
        free(tree);
        return NULL;
    }
    *tree = (struct tree){.functions = functions,
                          .index = {.arena = {.base = base, .size_bytes = options->pool_size,
                                              .chunk_bytes = CHUNK},
                                    .policy = &own_policy,
                                    .threads = (uint32_t)options->threads}};
    if (options->threads > 1) {
        tree->sharing.threads = (uint32_t)options->threads;
        tree->index.sharing = &tree->sharing;
    }
    return OWN_KIND.open(&tree->index) ? tree : NULL;
}

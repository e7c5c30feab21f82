/*
 * An index of a shared library with the interface of PiBench's wrappers (its tree_api.hpp):
 * `create_tree(const tree_options_t &)` returns an object of a class derived from `tree_api`.
 *
 * It is called from C: an object begins with the address of a table of its class's virtual
 * functions, in the order of their declaration, and a destructor has two entries (Itanium C++ ABI,
 * section 2.5.2: what gcc and clang use on Linux). A text of the options is laid out as in
 * libstdc++ since gcc 5.
 *
 * A library whose trees threads may share declares it: `extern "C" const bool tree_is_thread_safe =
 * true;`. What of it is durable, and when, is the library's: `recover` does nothing.
 */
#include "index.h"

#include <dlfcn.h>

struct text {
    const char *at;
    size_t length;
    union {
        size_t capacity; /* of a text that lies elsewhere */
        char local[16];
    };
};
struct mb_library_options {
    size_t key_size, value_size;
    struct text pool_path;
    size_t pool_size, threads;
};
struct tree {
    const struct functions {
        void (*destroy)(struct tree *tree); /* without freeing it */
        void (*remove_tree)(struct tree *tree);
        bool (*find)(struct tree *tree, const char *key, size_t bytes, char *value);
        bool (*insert)(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                       size_t value_bytes);
        bool (*update)(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                       size_t value_bytes);
        bool (*remove)(struct tree *tree, const char *key, size_t bytes);
        int (*scan)(struct tree *tree, const char *key, size_t bytes, int most, char **values);
    } *functions;
};

bool mb_library_load(const char *path, struct mb_library *library, struct tb_error *error)
{
    if (!tb_keep_output(error)) /* wrappers print */
        return false;
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!loaded || !(*(void **)&library->create = dlsym(loaded, "create_tree")))
        return tb_fail(error, "library: %s", dlerror());
    const bool *declared = dlsym(loaded, "tree_is_thread_safe");
    library->shares = declared && *declared;
    return true;
}

/* One at a time: a library may count its trees. */
static bool make(struct mb_index *index)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct mb_library_options options = {
        .key_size = sizeof(uint64_t), .value_size = sizeof(uint64_t),
        .pool_size = index->arena.size_bytes, .threads = index->threads};
    options.pool_path.at = options.pool_path.local;
    if (index->pool_path) {
        size_t length = strlen(index->pool_path);
        options.pool_path = (struct text){.at = index->pool_path, .length = length,
                                          .capacity = length};
    }
    pthread_mutex_lock(&lock);
    index->tree = index->library->create(&options);
    pthread_mutex_unlock(&lock);
    return index->tree;
}

static void discard(struct mb_index *index)
{
    struct tree *tree = index->tree;
    tree->functions->remove_tree(tree);
    if (index->pool_path)
        unlink(index->pool_path);
}

static bool recover(struct mb_index *index)
{
    return true;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct tree *tree = index->tree;
    return tree->functions->insert(tree, (const char *)&key, sizeof key, (const char *)&value,
                                   sizeof value);
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct tree *tree = index->tree;
    return tree->functions->update(tree, (const char *)&key, sizeof key, (const char *)&value,
                                   sizeof value);
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    struct tree *tree = index->tree;
    return tree->functions->find(tree, (const char *)&key, sizeof key, (char *)value);
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    struct tree *tree = index->tree;
    return tree->functions->remove(tree, (const char *)&key, sizeof key);
}

const struct mb_index_kind mb_library_index = {
    .name = "library",
    .disciplines = {[MB_DESIGNED] = true},
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
    .close = discard,
};

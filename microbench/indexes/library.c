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
#include <ftw.h>

enum { MOST_FOLDERS_OPEN = 16 };

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
        .key_size = index->library->key_bytes, .value_size = index->library->value_bytes,
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

static _Thread_local uint64_t pool_bytes;

static int add_bytes(const char *path, const struct stat *file, int kind, struct FTW *at)
{
    pool_bytes += kind == FTW_F ? (uint64_t)file->st_blocks * 512 : 0;
    return 0;
}

/* Some keep their tree in a file, others in files of a folder. */
uint64_t mb_library_pool_bytes(const char *pool_path)
{
    pool_bytes = 0;
    nftw(pool_path, add_bytes, MOST_FOLDERS_OPEN, FTW_PHYS);
    return pool_bytes;
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *at)
{
    return remove(path);
}

static void discard(struct mb_index *index)
{
    struct tree *tree = index->tree;
    tree->functions->remove_tree(tree);
    if (index->pool_path)
        nftw(index->pool_path, remove_one, MOST_FOLDERS_OPEN, FTW_PHYS | FTW_DEPTH);
}

static bool recover(struct mb_index *index)
{
    return true;
}

/* Keys and values of more than a word: of each byte of the rest, the word decides, too. */
struct record {
    char key[MB_LIBRARY_MOST_BYTES], value[MB_LIBRARY_MOST_BYTES];
};

static inline void spread(char *bytes, uint32_t size, uint64_t word)
{
    memcpy(bytes, &word, sizeof word);
    memset(bytes + sizeof word, (int)(word & 0xff), size - sizeof word);
}

static inline bool is_spread(const char *bytes, uint32_t size, uint64_t word)
{
    char wrong = 0;
    for (uint32_t i = sizeof word; i < size; i++)
        wrong |= bytes[i] ^ (char)word;
    return !wrong;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    const struct mb_library *library = index->library;
    struct tree *tree = index->tree;
    struct record record;
    spread(record.key, library->key_bytes, key);
    spread(record.value, library->value_bytes, value);
    return tree->functions->insert(tree, record.key, library->key_bytes, record.value,
                                   library->value_bytes);
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    const struct mb_library *library = index->library;
    struct tree *tree = index->tree;
    struct record record;
    spread(record.key, library->key_bytes, key);
    spread(record.value, library->value_bytes, value);
    return tree->functions->update(tree, record.key, library->key_bytes, record.value,
                                   library->value_bytes);
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    const struct mb_library *library = index->library;
    struct tree *tree = index->tree;
    struct record record;
    spread(record.key, library->key_bytes, key);
    if (!tree->functions->find(tree, record.key, library->key_bytes, record.value))
        return false;
    memcpy(value, record.value, sizeof *value);
    return is_spread(record.value, library->value_bytes, *value);
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    struct tree *tree = index->tree;
    struct record record;
    spread(record.key, index->library->key_bytes, key);
    return tree->functions->remove(tree, record.key, index->library->key_bytes);
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

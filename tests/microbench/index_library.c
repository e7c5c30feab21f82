/* What g++ makes of a class derived from PiBench's tree_api, written in C: an open hash table. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 1 << 16 };
struct tree {
    const void *const *functions;
    struct {
        uint64_t key, value; /* key 0: nothing */
    } places[PLACES];
};
struct options {
    size_t key_size, value_size;
    struct {
        const char *at;
        size_t length;
        char local[16];
    } pool_path;
    size_t pool_size, threads;
};

static uint64_t *place_of(struct tree *tree, const char *key)
{
    uint64_t word, at;
    memcpy(&word, key, sizeof word);
    for (at = word % PLACES; tree->places[at].key && tree->places[at].key != word;)
        at = (at + 1) % PLACES;
    return &tree->places[at].key;
}

static void destroy(struct tree *tree) { (void)tree; }
#ifdef IN_FILE
static void remove_tree(struct tree *tree) { munmap(tree, sizeof *tree); }
#else
static void remove_tree(struct tree *tree) { free(tree); }
#endif

static bool find(struct tree *tree, const char *key, size_t bytes, char *value)
{
    const uint64_t *place = place_of(tree, key);
    memcpy(value, &place[1], sizeof *place);
    return bytes == sizeof *place && *place;
}

static bool put(struct tree *tree, const char *key, const char *value, bool there)
{
    uint64_t *place = place_of(tree, key);
    if ((*place != 0) != there)
        return false;
    memcpy(&place[0], key, sizeof *place);
    memcpy(&place[1], value, sizeof *place);
#ifdef LOSES
    place[1] += there;
#endif
    return true;
}

static bool insert(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                   size_t value_bytes)
{
    return key_bytes == 8 && value_bytes == 8 && put(tree, key, value, false);
}

static bool update(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                   size_t value_bytes)
{
    return key_bytes == 8 && value_bytes == 8 && put(tree, key, value, true);
}

#ifdef REFUSES_ROOT
__attribute__((constructor)) static void refuse_root(void)
{
    if (geteuid() == 0)
        _exit(77);
}
#endif

#ifndef OTHER_NAME
#define OTHER_NAME create_tree
#endif
struct tree *OTHER_NAME(const struct options *options)
{
    static const void *const functions[] = {destroy, remove_tree, find, insert, update, NULL, NULL};
    puts("wrappers print");
    bool right = options->key_size == 8 && options->value_size == 8 && options->threads == 1 &&
                 strlen(options->pool_path.at) == options->pool_path.length;
#ifdef IN_FILE
    int file = open(options->pool_path.at, O_RDWR | O_CREAT | O_EXCL, 0600);
    struct tree *tree = posix_fallocate(file, 0, sizeof *tree) != 0
                            ? NULL
                            : mmap(NULL, sizeof *tree, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
#else
    struct tree *tree = calloc(1, sizeof *tree);
#endif
    tree->functions = functions;
    return right ? tree : NULL;
}

/*
 * What g++ makes of a class derived from PiBench's tree_api, written in C: an open hash table.
 * SHARES: threads may share it, by a lock; RACES: it says so, and has none; IN_FILE: in the file
 * pool_path, or in one of that name in the folder pool_path, where it is again after a restart;
 * VALUE_BYTES, KEY_BYTES: of more than a word; CUTS: it keeps a value's first word alone; MOST: it
 * finds a key so often, and then no more.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef KEY_BYTES
#define KEY_BYTES 8
#endif
#ifndef VALUE_BYTES
#define VALUE_BYTES 8
#endif
enum { PLACES = 1 << 16, BUCKET = 64, REST = VALUE_BYTES - 8 };
struct tree {
    const void *const *functions;
    struct {
        uint64_t key, value; /* key 0: nothing */
    } places[PLACES];
    char rest[PLACES][REST + 1]; /* of values */
    uint32_t finds[PLACES];
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t *place_of(struct tree *tree, const char *key)
{
    uint64_t word, at;
    memcpy(&word, key, sizeof word);
    for (at = word % PLACES; tree->places[at].key && tree->places[at].key != word;)
        at = (at + 1) % PLACES;
    return &tree->places[at].key;
}

static size_t number_of(const struct tree *tree, const uint64_t *place)
{
    return (size_t)(place - &tree->places[0].key) / 2;
}

static void destroy(struct tree *tree) { (void)tree; }
#ifdef IN_FILE
static void remove_tree(struct tree *tree) { munmap(tree, sizeof *tree); }
#else
static void remove_tree(struct tree *tree) { free(tree); }
#endif

#ifdef SHARES
static void take_lock(void) { pthread_mutex_lock(&lock); }
static void leave_lock(void) { pthread_mutex_unlock(&lock); }
const bool tree_is_thread_safe = true;
#else
static void take_lock(void) { (void)lock; }
static void leave_lock(void) { }
#endif
#ifdef RACES
const bool tree_is_thread_safe = true;
/* Writes the others of its bucket back as it found them. */
static void write_value(struct tree *tree, uint64_t *place, uint64_t value)
{
    size_t number = number_of(tree, place);
    uint64_t *bucket = &tree->places[number / BUCKET * BUCKET].key, copy[BUCKET][2];
    memcpy(copy, bucket, sizeof copy);
    sched_yield();
    copy[number % BUCKET][1] = value;
    memcpy(bucket, copy, sizeof copy);
}
#else
static void write_value(struct tree *tree, uint64_t *place, uint64_t value)
{
    (void)tree;
    __atomic_store_n(&place[1], value, __ATOMIC_RELEASE);
}
#endif

static bool find(struct tree *tree, const char *key, size_t bytes, char *value)
{
    take_lock();
    const uint64_t *place = place_of(tree, key);
    bool there = bytes == KEY_BYTES && *place;
    memcpy(value, &place[1], sizeof *place);
    memcpy(value + sizeof *place, tree->rest[number_of(tree, place)], REST);
#ifdef MOST
    there = there && tree->finds[number_of(tree, place)]++ < MOST;
#endif
    leave_lock();
    return there;
}

static bool put(struct tree *tree, const char *key, const char *value, bool there)
{
    uint64_t new_key, new_value;
    memcpy(&new_key, key, sizeof new_key);
    memcpy(&new_value, value, sizeof new_value);
#ifdef LOSES
    new_value += there;
#endif
    take_lock();
    uint64_t *place = place_of(tree, key);
    bool right = (*place != 0) == there;
    if (right) {
        write_value(tree, place, new_value);
#ifndef CUTS
        memcpy(tree->rest[number_of(tree, place)], value + sizeof new_value, REST);
#endif
        __atomic_store_n(&place[0], new_key, __ATOMIC_RELEASE);
    }
    leave_lock();
    return right;
}

static bool insert(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                   size_t value_bytes)
{
    return key_bytes == KEY_BYTES && value_bytes == VALUE_BYTES && put(tree, key, value, false);
}

static bool update(struct tree *tree, const char *key, size_t key_bytes, const char *value,
                   size_t value_bytes)
{
    return key_bytes == KEY_BYTES && value_bytes == VALUE_BYTES && put(tree, key, value, true);
}

#ifdef REFUSES_ROOT
__attribute__((constructor)) static void refuse_root(void)
{
    if (geteuid() == 0)
        _exit(77);
}
#endif

#ifndef THREADS
#define THREADS 1
#endif
#ifndef OTHER_NAME
#define OTHER_NAME create_tree
#endif
struct tree *OTHER_NAME(const struct options *options)
{
    static const void *const functions[] = {destroy, remove_tree, find, insert, update, NULL, NULL};
    puts("wrappers print");
    bool right = options->key_size == KEY_BYTES && options->value_size == VALUE_BYTES &&
                 options->threads == THREADS &&
                 strlen(options->pool_path.at) == options->pool_path.length;
#ifdef IN_FILE
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", options->pool_path.at, IN_FILE);
    if (*IN_FILE)
        mkdir(options->pool_path.at, 0700);
    int file = open(path, O_RDWR | O_CREAT, 0600);
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

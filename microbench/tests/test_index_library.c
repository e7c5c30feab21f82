/*
 * A library whose tree threads share, killed while all of them change it: after a restart each
 * change that was acknowledged is there, and the one under way wholly or not at all.
 */
#include "../indexes/index.h"
#include "check.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#ifndef LIBRARY
#define LIBRARY "./libshared_index.so"
#endif

enum { THREADS = 16, KEYS = 200, KILLS = 5, CHANGES = 20000 };

/* Which change of each key was acknowledged last: from 1; 0: none. */
static struct acknowledged {
    _Atomic uint64_t last[THREADS][KEYS], all;
} *acknowledged;
static struct mb_library library = {.key_bytes = sizeof(uint64_t), .value_bytes = sizeof(uint64_t)};
static struct mb_index tree;

static uint64_t key_of(size_t thread, size_t number) { return number * THREADS + thread + 1; }

static void *change(void *of)
{
    size_t thread = (size_t)(uintptr_t)of;
    for (uint64_t next = 1;; next++)
        for (size_t number = 0; number < KEYS; number++) {
            uint64_t key = key_of(thread, number);
            if (!(next == 1 ? mb_library_index.insert(&tree, key, next)
                            : mb_library_index.update(&tree, key, next)))
                abort();
            atomic_store(&acknowledged->last[thread][number], next);
            atomic_fetch_add(&acknowledged->all, 1);
        }
    return NULL;
}

static void change_all(void)
{
    pthread_t threads[THREADS];
    if (!mb_library_index.open(&tree))
        abort();
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, change, (void *)(uintptr_t)i);
    pthread_join(threads[0], NULL); /* until it is killed */
}

static void check_restarted(void)
{
    CHECK(mb_library_index.open(&tree));
    for (size_t thread = 0; thread < THREADS; thread++)
        for (size_t number = 0; number < KEYS; number++) {
            uint64_t last = acknowledged->last[thread][number], value = 0;
            bool there = mb_library_index.read(&tree, key_of(thread, number), &value);
            CHECK_CASE(there ? value == last || value == last + 1 : last == 0, number);
        }
    mb_library_index.close(&tree);
}

int main(void)
{
    struct tb_error error = {0};
    char pool[] = "/tmp/tierbench-index-XXXXXX";
    CHECK(mkdtemp(pool));
    char path[sizeof pool + 8];
    snprintf(path, sizeof path, "%s/pool", pool);
    acknowledged = mmap(NULL, sizeof *acknowledged, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mb_library_load(LIBRARY, &library, &error) && library.shares);
    tree = (struct mb_index){.library = &library, .pool_path = path, .threads = THREADS};
    for (uint64_t kill_number = 1; kill_number <= KILLS; kill_number++) {
        memset(acknowledged, 0, sizeof *acknowledged);
        pid_t child = fork();
        if (child == 0)
            change_all();
        while (atomic_load(&acknowledged->all) < kill_number * CHANGES &&
               waitpid(child, NULL, WNOHANG) == 0)
            sched_yield();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        check_restarted();
    }
    rmdir(pool);
    return checks_failed();
}

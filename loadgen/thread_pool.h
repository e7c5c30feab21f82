/* Threads that do the packages of a load or a verification, each on a connection of its own. */
#ifndef LOADGEN_YCSB_THREAD_POOL_H
#define LOADGEN_YCSB_THREAD_POOL_H

#include "../spec.h"

#include <pthread.h>
#include <stdatomic.h>

struct lg_thread_pool;

struct lg_pool_thread {
    struct lg_thread_pool *pool;
    pthread_t id;
    void *connection;
    void *own; /* of whoever does the packages; starts as NULL, is freed at the end */
};

struct lg_thread_pool {
    const struct lg_job *job;
    const struct lg_statements *statements; /* NULL for a load */
    int64_t packages;
    /* Does one; false with the error. `context` is the caller's. */
    bool (*work)(struct lg_pool_thread *thread, int64_t package, struct tb_error *error);
    void *context;
    /* Progress: "<event>", {"<what>": <count>} at times. */
    const char *event, *what;

    pthread_mutex_t lock; /* of all that follows, and for the caller's own use */
    uint64_t told_ns;
    int64_t count;
    struct tb_error error;
    atomic_int_fast64_t next;
    atomic_bool failed;
};

/* As many threads as the spec has; false with the first error, after which none goes on. */
bool lg_pool_run(struct lg_thread_pool *pool, struct tb_error *error);
/* Adds to what progress tells. */
void lg_pool_count(struct lg_thread_pool *pool, int64_t done);

/*
 * Executes one statement and waits for its result. Its outcome is LG_OK, or LG_RETRY where
 * it is to be executed again: the reader has then seen rows of what was undone. NULL with
 * the error.
 */
const struct lg_result *lg_pool_execute(struct lg_pool_thread *thread,
                                        const struct lg_statement *statement,
                                        const struct lg_value *values,
                                        const struct lg_reader *reader, struct tb_error *error);

#endif

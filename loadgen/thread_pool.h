/* Threads that do the packages of a load or a verification, each on a connection of its own. */
#pragma once

#include "spec.h"

enum { LG_MAX_COUNTS = 16 };

struct lg_thread_pool;

struct lg_pool_thread {
    struct lg_thread_pool *pool;
    pthread_t id;
    struct lg_session *session;
    struct lg_result result; /* of the session */
    void *own; /* of whoever does the packages; starts as NULL, is freed at the end */
};

struct lg_thread_pool {
    const struct lg_job *job;
    const struct lg_statements *statements; /* NULL for a load */
    int64_t packages;
    /* Does one; false with the error, or without one where this thread has no more work. */
    bool (*work)(struct lg_pool_thread *thread, int64_t package, struct tb_error *error);
    void *context;
    /* Progress: "<event>", {"<name>": <count>, …} at times. */
    const char *event;
    const char *names[LG_MAX_COUNTS];

    pthread_mutex_t lock; /* of all that follows, and for the caller's own use */
    uint64_t reported_ns;
    int64_t counts[LG_MAX_COUNTS];
    struct tb_error error;
    atomic_int_fast64_t next;
    atomic_bool failed;
};

/* As many threads as the spec has; false with the first error, after which none continues. */
bool lg_pool_run(struct lg_thread_pool *pool, struct tb_error *error);
/* Adds to the count of `names[which]`. */
void lg_pool_count(struct lg_thread_pool *pool, int which, int64_t done);
/* All counts by name. */
json_t *lg_pool_counts(const struct lg_thread_pool *pool);

/*
 * The end of one bulk load on the thread's connection: false with the error where fewer or more
 * rows than `sent` are stored. Stored rows are counted for `names[which]`.
 */
bool lg_pool_end_bulk(struct lg_pool_thread *thread, int which, int64_t sent,
                      struct tb_error *error);

/*
 * Executes one statement and waits for its result. Its outcome is LG_OK, or LG_RETRY where
 * it is to be executed again: the reader has then seen rows of what was undone. NULL with
 * the error.
 */
const struct lg_result *lg_pool_execute(struct lg_pool_thread *thread,
                                        const struct lg_statement *statement,
                                        const struct lg_value *values,
                                        const struct lg_reader *reader, struct tb_error *error);

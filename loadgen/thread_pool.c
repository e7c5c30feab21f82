/* See thread_pool.h. */
#include "thread_pool.h"

#include <poll.h>

#define PROGRESS_INTERVAL_NS (TB_SECOND / 2)
/* A server that is silent for this time no longer answers. */
enum { PATIENCE_MS = 120000, PAUSE_MS = 10 };

static void fail(struct lg_thread_pool *pool, const struct tb_error *error)
{
    pthread_mutex_lock(&pool->lock);
    if (!atomic_load(&pool->failed)) {
        pool->error = *error;
        atomic_store(&pool->failed, true);
    }
    pthread_mutex_unlock(&pool->lock);
}

json_t *lg_pool_counts(const struct lg_thread_pool *pool)
{
    json_t *counts = json_object();

    for (int i = 0; i < LG_MAX_COUNTS && pool->names[i]; i++)
        json_object_set_new(counts, pool->names[i], json_integer(pool->counts[i]));
    return counts;
}

void lg_pool_count(struct lg_thread_pool *pool, int which, int64_t done)
{
    uint64_t now_ns = tb_monotonic_ns();

    pthread_mutex_lock(&pool->lock);
    pool->counts[which] += done;
    if (now_ns - pool->reported_ns >= PROGRESS_INTERVAL_NS) {
        json_t *counts = lg_pool_counts(pool);

        pool->reported_ns = now_ns;
        tb_progress(pool->event, counts);
        json_decref(counts);
    }
    pthread_mutex_unlock(&pool->lock);
}

bool lg_pool_end_bulk(struct lg_pool_thread *thread, int which, int64_t sent,
                      struct tb_error *error)
{
    int64_t stored = thread->pool->job->backend->bulk_end(thread->session, error);

    if (stored >= 0 && stored != sent)
        tb_fail(error, "the engine stored %lld of %lld rows", (long long)stored, (long long)sent);
    if (stored != sent)
        return false;
    lg_pool_count(thread->pool, which, stored);
    return true;
}

static void *work(void *argument)
{
    struct lg_pool_thread *thread = argument;
    struct lg_thread_pool *pool = thread->pool;
    const struct lg_backend *backend = pool->job->backend;
    struct tb_error error = {""};

    thread->session = backend->connect(pool->job->client,
                                       pool->statements ? pool->statements->all : NULL,
                                       pool->statements ? pool->statements->count : 0,
                                       &thread->result, &error);
    while (thread->session && !atomic_load(&pool->failed)) {
        int64_t package = atomic_fetch_add(&pool->next, 1);

        if (package >= pool->packages || !pool->work(thread, package, &error))
            break;
    }
    if (error.text[0])
        fail(pool, &error);
    if (thread->session)
        backend->disconnect(thread->session);
    free(thread->own);
    return NULL;
}

bool lg_pool_run(struct lg_thread_pool *pool, struct tb_error *error)
{
    uint32_t threads = pool->job->spec->threads, started = 0;
    struct lg_pool_thread *all = tb_allocate(threads, sizeof *all);

    pthread_mutex_init(&pool->lock, NULL);
    for (; started < threads; started++) {
        all[started].pool = pool;
        if (pthread_create(&all[started].id, NULL, work, &all[started]) != 0) {
            tb_fail(error, "thread %u of %u could not be started", started + 1, threads);
            fail(pool, error);
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(all[i].id, NULL);
    free(all);
    pthread_mutex_destroy(&pool->lock);
    if (atomic_load(&pool->failed))
        *error = pool->error;
    return !atomic_load(&pool->failed);
}

/* Until the statement has its result; false where the server does not answer. */
static bool await(struct lg_pool_thread *thread, enum lg_state state, struct tb_error *error)
{
    const struct lg_backend *backend = thread->pool->job->backend;

    while (state != LG_READY) {
        struct pollfd polled = {.fd = backend->descriptor(thread->session), .events = POLLIN};
        int ready;

        if (state == LG_WANT_WRITE)
            polled.events |= POLLOUT;
        ready = poll(&polled, 1, PATIENCE_MS);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return tb_fail(error, "no answer from the server for %d s", PATIENCE_MS / 1000);
        state = backend->advance(thread->session);
    }
    return true;
}

const struct lg_result *lg_pool_execute(struct lg_pool_thread *thread,
                                        const struct lg_statement *statement,
                                        const struct lg_value *values,
                                        const struct lg_reader *reader, struct tb_error *error)
{
    const struct lg_backend *backend = thread->pool->job->backend;
    const struct lg_result *result = &thread->result;

    if (!await(thread, backend->submit(thread->session, statement, values, reader), error))
        return NULL;
    if (result->outcome == LG_OK)
        return result;
    if (result->outcome == LG_RETRY && !atomic_load(&thread->pool->failed)) {
        poll(NULL, 0, PAUSE_MS);
        return result;
    }
    tb_fail(error, "%s: %s%s%s", statement->name, result->code, *result->code ? ": " : "",
            result->message);
    return NULL;
}

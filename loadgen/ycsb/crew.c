/* See crew.h. */
#include "crew.h"

#include "../support.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_INTERVAL_NS (LG_SECOND / 2)
/* A server that says nothing for so long no longer answers. */
enum { PATIENCE_MS = 120000, PAUSE_MS = 10 };

static void fail(struct lg_crew *crew, const struct lg_error *error)
{
    pthread_mutex_lock(&crew->lock);
    if (!atomic_load(&crew->failed)) {
        crew->error = *error;
        atomic_store(&crew->failed, true);
    }
    pthread_mutex_unlock(&crew->lock);
}

void lg_crew_count(struct lg_crew *crew, int64_t done)
{
    uint64_t now_ns = lg_monotonic_ns();

    pthread_mutex_lock(&crew->lock);
    crew->count += done;
    if (now_ns - crew->told_ns >= PROGRESS_INTERVAL_NS) {
        json_t *counts = json_pack("{s:I}", crew->what, (json_int_t)crew->count);

        crew->told_ns = now_ns;
        lg_progress(crew->event, counts);
        json_decref(counts);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *argument)
{
    struct lg_hand *hand = argument;
    struct lg_crew *crew = hand->crew;
    const struct lg_backend *backend = crew->job->backend;
    struct lg_error error = {""};

    hand->connection = backend->connect(crew->job->client,
                                        crew->statements ? crew->statements->all : NULL,
                                        crew->statements ? crew->statements->count : 0, &error);
    while (hand->connection && !atomic_load(&crew->failed)) {
        int64_t package = atomic_fetch_add(&crew->next, 1);

        if (package >= crew->packages || !crew->work(hand, package, &error))
            break;
    }
    if (error.text[0])
        fail(crew, &error);
    if (hand->connection)
        backend->disconnect(hand->connection);
    free(hand->own);
    return NULL;
}

bool lg_crew_run(struct lg_crew *crew, struct lg_error *error)
{
    uint32_t threads = crew->job->spec->threads, started = 0;
    struct lg_hand *hands = lg_allocate(threads, sizeof *hands);

    pthread_mutex_init(&crew->lock, NULL);
    for (; started < threads; started++) {
        hands[started].crew = crew;
        if (pthread_create(&hands[started].thread, NULL, work, &hands[started]) != 0) {
            lg_fail(error, "thread %u of %u cannot be started", started + 1, threads);
            fail(crew, error);
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(hands[i].thread, NULL);
    free(hands);
    pthread_mutex_destroy(&crew->lock);
    if (atomic_load(&crew->failed))
        *error = crew->error;
    return !atomic_load(&crew->failed);
}

/* Until the statement has its result; false where the server does not answer. */
static bool await(struct lg_hand *hand, enum lg_state state, struct lg_error *error)
{
    const struct lg_backend *backend = hand->crew->job->backend;

    while (state != LG_READY) {
        struct pollfd polled = {.fd = backend->descriptor(hand->connection), .events = POLLIN};
        int ready;

        if (state == LG_WANT_WRITE)
            polled.events |= POLLOUT;
        ready = poll(&polled, 1, PATIENCE_MS);
        if (ready == 0 || (ready < 0 && errno != EINTR)) {
            lg_fail(error, "the server has not answered for %d s", PATIENCE_MS / 1000);
            return false;
        }
        state = backend->advance(hand->connection);
    }
    return true;
}

const struct lg_result *lg_crew_execute(struct lg_hand *hand,
                                        const struct lg_statement *statement,
                                        const struct lg_value *values,
                                        const struct lg_reader *reader, struct lg_error *error)
{
    const struct lg_backend *backend = hand->crew->job->backend;
    const struct lg_result *result;

    if (!await(hand, backend->submit(hand->connection, statement, values, reader), error))
        return NULL;
    result = backend->result(hand->connection);
    if (result->outcome == LG_OK)
        return result;
    if (result->outcome == LG_RETRY && !atomic_load(&hand->crew->failed)) {
        poll(NULL, 0, PAUSE_MS);
        return result;
    }
    lg_fail(error, "%s: %s%s%s", statement->name, result->code, *result->code ? ": " : "",
            result->message);
    return NULL;
}

/*
 * A back end without a server: answers come after a set time, from a timer descriptor, so
 * that the event loop works as with a real one. For tests of the client itself.
 *
 *   connection: {
 *     "service_us": 100,       a call takes this long
 *     "stall_ms": 200,         nothing is answered for this time …
 *     "stall_every_ms": 1000,  … each time this has passed since the process opened it
 *     "retry_every": N,        every Nth call of a connection is undone (code 40001)
 *     "refuse_after": N, "lose_after": N, "hang_after": N,   Nth call of a connection
 *     "hang_connection": N,    the Nth connection answers nothing
 *     "refuse_connection": true, "hang_connecting": true,
 *     "embedded": true,        no descriptor, answered within submit
 *     "answers": {"statement": ["column", null]}   its first row
 *   }
 */
#include "backend.h"

#include <sys/timerfd.h>

struct lg_client {
    uint64_t epoch_ns, service_ns, stall_ns, stall_every_ns;
    uint64_t retry_every, refuse_after, lose_after, hang_after, hang_connection;
    bool refuse_connection, hang_connecting, embedded;
    const json_t *answers;
    atomic_uint connections;
};

struct lg_session {
    struct lg_client *server;
    unsigned number;
    int timer;
    uint64_t calls;
    const struct lg_statement *statement;
    struct lg_result *result;
    int64_t rows;
};

static uint64_t number_of(const json_t *connection, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(connection, key));
}

static struct lg_client *stub_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *server = tb_allocate(1, sizeof *server);
    server->epoch_ns = tb_monotonic_ns();
    server->service_ns = number_of(connection, "service_us") * 1000;
    server->stall_ns = number_of(connection, "stall_ms") * TB_MILLISECOND;
    server->stall_every_ns = number_of(connection, "stall_every_ms") * TB_MILLISECOND;
    server->retry_every = number_of(connection, "retry_every");
    server->refuse_after = number_of(connection, "refuse_after");
    server->lose_after = number_of(connection, "lose_after");
    server->hang_after = number_of(connection, "hang_after");
    server->hang_connection = number_of(connection, "hang_connection");
    server->refuse_connection = json_is_true(json_object_get(connection, "refuse_connection"));
    server->hang_connecting = json_is_true(json_object_get(connection, "hang_connecting"));
    server->embedded = json_is_true(json_object_get(connection, "embedded"));
    server->answers = json_object_get(connection, "answers");
    return server;
}

static void stub_close(struct lg_client *server)
{
    free(server);
}

static struct lg_session *stub_connect(struct lg_client *server,
                                       const struct lg_statement *statements, size_t count,
                                       struct lg_result *result, struct tb_error *error)
{
    if (server->refuse_connection) {
        tb_fail(error, "connection refused by the stub");
        return NULL;
    }
    while (server->hang_connecting)
        pause();
    struct lg_session *session = tb_allocate(1, sizeof *session);
    session->server = server;
    session->result = result;
    session->number = atomic_fetch_add(&server->connections, 1);
    session->timer = -1;
    if (!server->embedded)
        session->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return session;
}

static void stub_disconnect(struct lg_session *session)
{
    if (session->timer >= 0)
        close(session->timer);
    free(session);
}

static int stub_descriptor(struct lg_session *session)
{
    return session->timer;
}

/* A call that falls into a stall is worked on when that is over. */
static uint64_t done_at(const struct lg_client *server, uint64_t now_ns)
{
    uint64_t done = now_ns + server->service_ns;
    if (server->stall_every_ns == 0)
        return done;
    uint64_t since = done - server->epoch_ns;
    uint64_t into = since % server->stall_every_ns;
    bool stalled = since >= server->stall_every_ns && into < server->stall_ns;
    return stalled ? done - into + server->stall_ns : done;
}

static void fill_answer(struct lg_session *session)
{
    const json_t *row = json_object_get(session->server->answers, session->statement->name);
    struct lg_result *result = session->result;
    size_t column;
    json_t *value;
    result->rows = row ? 1 : 0;
    result->columns = json_array_size(row);
    json_array_foreach(row, column, value) {
        result->first[column].text = json_string_value(value);
        result->first[column].length = json_string_length(value);
    }
}

static enum lg_state answer(struct lg_session *session)
{
    const struct lg_client *server = session->server;
    struct lg_result *result = session->result;
    /* Not the whole of it: it is long, and what is not counted is not looked at. */
    result->outcome = LG_OK;
    result->rows = result->columns = 0;
    result->affected = -1;
    result->code[0] = result->message[0] = '\0';
    if (session->calls == server->lose_after && server->lose_after) {
        result->outcome = LG_LOST;
        snprintf(result->code, sizeof result->code, "08006");
        snprintf(result->message, sizeof result->message, "the stub has gone away");
    } else if (session->calls == server->refuse_after && server->refuse_after) {
        result->outcome = LG_REFUSED;
        snprintf(result->code, sizeof result->code, "42601");
        snprintf(result->message, sizeof result->message, "the stub does not like this");
    } else if (server->retry_every && session->calls % server->retry_every == 0) {
        result->outcome = LG_RETRY;
        snprintf(result->code, sizeof result->code, "40001");
        snprintf(result->message, sizeof result->message, "the stub wants it again");
    } else {
        fill_answer(session);
    }
    return LG_READY;
}

static enum lg_state stub_submit(struct lg_session *session, const struct lg_statement *statement,
                                 const struct lg_value *values,
                                 const struct lg_reader *reader)
{
    session->statement = statement;
    session->calls++;
    if (session->server->embedded)
        return answer(session);
    uint64_t done = done_at(session->server, tb_monotonic_ns());
    if ((session->server->hang_after && session->calls >= session->server->hang_after) ||
        session->number + 1 == session->server->hang_connection)
        done = UINT64_C(1) << 62;
    struct itimerspec when = {.it_value = tb_timespec(done)};
    timerfd_settime(session->timer, TFD_TIMER_ABSTIME, &when, NULL);
    return LG_WANT_READ;
}

static enum lg_state stub_advance(struct lg_session *session)
{
    uint64_t expirations;
    if (read(session->timer, &expirations, sizeof expirations) != sizeof expirations)
        return LG_WANT_READ;
    return answer(session);
}

static bool stub_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                            struct tb_error *error)
{
    session->rows = 0;
    return true;
}

static bool stub_bulk_write(struct lg_session *session, const char *rows, size_t length,
                            struct tb_error *error)
{
    for (const char *at = rows, *end = rows + length; (at = memchr(at, '\n', (size_t)(end - at)));
         at++)
        session->rows++;
    return true;
}

static int64_t stub_bulk_end(struct lg_session *session, struct tb_error *error)
{
    return session->rows;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = stub_open,
    .close = stub_close,
    .connect = stub_connect,
    .disconnect = stub_disconnect,
    .descriptor = stub_descriptor,
    .submit = stub_submit,
    .advance = stub_advance,
    .bulk_begin = stub_bulk_begin,
    .bulk_write = stub_bulk_write,
    .bulk_end = stub_bulk_end,
};

/*
 * VoltDB by its own wire protocol.
 *
 *   "backend": "voltdb",
 *   "connection": {"host": "127.0.0.1", "port": 21212, "user": "…",
 *                  "password": "64 digits: SHA-256 of the password, as the login carries it",
 *                  "tables": {"item": [["i_id", 5, false], …]}}
 *
 * A statement is a call of a procedure (loadgen_wire.h); the result has the first row of the first
 * table.
 *
 * A procedure that aborts with an application status that begins with TB has undone its own
 * work and was meant to (New-Order with an unused item): the result is LG_OK without rows, and
 * `code` has the status.
 *
 * "tables" is for loading alone: name, type and whether it is the one that its table is
 * partitioned by, of every column. Rows of one partitioning value go to its partition in one call.
 */
#include "loadgen_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
    HASH_BYTES = 32,
    HASH_SHA256 = 1,
    LOGIN_VERSION = 1,
    MAX_ANSWER_BYTES = 64 << 20,
    READ_BYTES = 64 << 10,
    SUCCESS = 1,
    USER_ABORT = -1,
    TXN_RESTART = -8,
    CONNECTION_LOST = -4,
    SERVER_UNAVAILABLE = -5,
    /* Bits of an answer that say what it has. */
    HAS_STATUS = 1 << 5,
    HAS_EXCEPTION = 1 << 6,
    HAS_APP_STATUS = 1 << 7,
    HAS_HASH = 1 << 4,
};

struct lg_client {
    struct sockaddr_in address;
    const char *user;
    unsigned char hash[HASH_BYTES];
    const json_t *tables;
};

struct lg_session {
    int socket;
    const struct lg_statement *statements;
    struct volt_call *calls;
    struct tb_text out;
    size_t sent;
    struct tb_text in; /* the answer, and nothing after it */
    int64_t handle;
    const struct lg_reader *reader;
    struct lg_result *result;
    char numbers[LG_MAX_COLUMNS][VOLT_NUMBER_BYTES]; /* the first row's */
    char passing[LG_MAX_COLUMNS][VOLT_NUMBER_BYTES]; /* those of rows that only pass */
    struct volt_bulk bulk;
};

/* ---- connection ---------------------------------------------------------------- */

static bool read_hash(unsigned char *hash, const char *digits)
{
    if (digits == NULL || strlen(digits) != 2 * HASH_BYTES)
        return false;
    for (size_t i = 0; i < HASH_BYTES; i++) {
        unsigned byte;

        if (sscanf(digits + 2 * i, "%2x", &byte) != 1)
            return false;
        hash[i] = (unsigned char)byte;
    }
    return true;
}

static struct lg_client *voltdb_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *client = tb_allocate(1, sizeof *client);
    const char *host = json_string_value(json_object_get(connection, "host"));
    const char *isolation = json_string_value(json_object_get(connection, "isolation"));
    json_int_t port = json_integer_value(json_object_get(connection, "port"));

    client->address.sin_family = AF_INET;
    client->address.sin_port = htons((uint16_t)port);
    client->user = json_string_value(json_object_get(connection, "user"));
    client->tables = json_object_get(connection, "tables");
    if (host == NULL || inet_pton(AF_INET, host, &client->address.sin_addr) != 1 || port < 1 ||
        port > UINT16_MAX || client->user == NULL)
        tb_fail(error, "connection: must have host (an IPv4 address), port and user");
    else if (isolation != NULL && strcmp(isolation, "serializable") != 0)
        tb_fail(error, "connection.isolation: VoltDB's is always serializable, not %s", isolation);
    else if (!read_hash(client->hash,
                        json_string_value(json_object_get(connection, "password"))))
        tb_fail(error, "connection.password: must be 64 hexadecimal digits");
    else
        return client;
    free(client);
    return NULL;
}

static void voltdb_close(struct lg_client *client)
{
    free(client);
}

static void voltdb_disconnect(struct lg_session *session)
{
    if (session->socket >= 0)
        close(session->socket);
    free(session->calls);
    free(session->out.bytes);
    free(session->in.bytes);
    volt_bulk_free(&session->bulk);
    free(session);
}

/* The length of the answer that begins in `in`, with the bytes of the length; 0: not known yet. */
static size_t answer_bytes(const struct lg_session *session)
{
    struct volt_reader reader = {session->in.bytes, NULL, false};

    if (session->in.length < VOLT_LENGTH_BYTES)
        return 0;
    reader.end = reader.at + VOLT_LENGTH_BYTES;
    return (size_t)(uint32_t)volt_get(&reader, VOLT_LENGTH_BYTES) + VOLT_LENGTH_BYTES;
}

enum moved { MOVED_ALL, MOVED_SOME, MOVED_LOST };

static enum moved send_rest(struct lg_session *session, int flags)
{
    while (session->sent < session->out.length) {
        ssize_t sent = send(session->socket, session->out.bytes + session->sent,
                            session->out.length - session->sent, flags | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? MOVED_SOME : MOVED_LOST;
        session->sent += (size_t)sent;
    }
    return MOVED_ALL;
}

/* One answer and no byte more: the server sends nothing unrequested. */
static enum moved receive_rest(struct lg_session *session, int flags)
{
    char buffer[READ_BYTES];

    for (;;) {
        size_t wanted = answer_bytes(session);
        size_t most = wanted ? wanted - session->in.length : sizeof buffer;
        ssize_t received;

        if (wanted > MAX_ANSWER_BYTES) {
            errno = EPROTO;
            return MOVED_LOST;
        }
        if (wanted && session->in.length >= wanted)
            return MOVED_ALL;
        received = recv(session->socket, buffer, most < sizeof buffer ? most : sizeof buffer,
                        flags);
        if (received < 0 && errno == EINTR)
            continue;
        if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MOVED_SOME;
        if (received <= 0) {
            errno = received == 0 ? ECONNRESET : errno;
            return MOVED_LOST;
        }
        tb_text_add(&session->in, buffer, (size_t)received);
    }
}

/* Sends what is in `out` and waits for the whole answer; false with errno. */
static bool exchange(struct lg_session *session)
{
    session->sent = 0;
    session->in.length = 0;
    return send_rest(session, 0) == MOVED_ALL && receive_rest(session, 0) == MOVED_ALL;
}

static bool log_in(struct lg_session *session, const struct lg_client *client,
                   struct tb_error *error)
{
    struct tb_text *out = &session->out;
    struct volt_reader reader;

    volt_begin_message(out);
    volt_put(out, LOGIN_VERSION, 1);
    volt_put(out, HASH_SHA256, 1);
    volt_put_string(out, "database", strlen("database"));
    volt_put_string(out, client->user, strlen(client->user));
    tb_text_add(out, (const char *)client->hash, HASH_BYTES);
    volt_end_message(out);
    if (!exchange(session))
        return tb_fail(error, "VoltDB: log in: %s", strerror(errno));
    reader = (struct volt_reader){session->in.bytes + VOLT_LENGTH_BYTES,
                                  session->in.bytes + session->in.length, false};
    volt_skip(&reader, 1); /* the version */
    if (volt_get(&reader, 1) != 0 || reader.failed)
        return tb_fail(error, "VoltDB: log in: the server refuses user %s", client->user);
    return true;
}

static bool dial(struct lg_session *session, const struct lg_client *client, struct tb_error *error)
{
    int now = 1;

    session->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (session->socket >= 0 &&
        setsockopt(session->socket, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) == 0 &&
        connect(session->socket, (const struct sockaddr *)&client->address,
                sizeof client->address) == 0)
        return true;
    return tb_fail(error, "VoltDB: connect to port %u: %s", ntohs(client->address.sin_port),
                   strerror(errno));
}

static bool parse_calls(struct lg_session *session, size_t count, struct tb_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!volt_call_parse(&session->calls[i], &session->statements[i], error))
            return false;
    return true;
}

static struct lg_session *voltdb_connect(struct lg_client *client,
                                         const struct lg_statement *statements, size_t count,
                                         struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);

    session->result = result;
    session->statements = statements;
    session->calls = tb_allocate(count + 1, sizeof *session->calls);
    session->bulk.tables = client->tables;
    if (dial(session, client, error) && log_in(session, client, error) &&
        parse_calls(session, count, error))
        return session;
    voltdb_disconnect(session);
    return NULL;
}

static int voltdb_descriptor(struct lg_session *session)
{
    return session->socket;
}

/* ---- answers ------------------------------------------------------------------- */

static enum lg_outcome outcome_of(int64_t status, const char *app_status)
{
    switch (status) {
    case SUCCESS:
        return LG_OK;
    case USER_ABORT:
        return strncmp(app_status, "TB", 2) == 0 ? LG_OK : LG_REFUSED;
    case TXN_RESTART:
        return LG_RETRY;
    case CONNECTION_LOST:
    case SERVER_UNAVAILABLE:
        return LG_LOST;
    default:
        return LG_REFUSED;
    }
}

/* The rows of a table: the first is kept, all are shown to who reads them. */
static void read_rows(struct lg_session *session, struct volt_reader *reader,
                      const enum volt_type *types, size_t columns)
{
    struct lg_result *result = session->result;
    int64_t rows = volt_get(reader, 4);

    result->columns = columns;
    for (int64_t row = 0; row < rows && !reader->failed; row++) {
        struct lg_cell passing[LG_MAX_COLUMNS];
        struct lg_cell *cells = row == 0 ? result->first : passing;

        volt_skip(reader, 4); /* the row's length */
        for (size_t i = 0; i < columns; i++)
            cells[i] = volt_get_cell(reader, types[i], row == 0 ? session->numbers[i]
                                                                : session->passing[i]);
        if (reader->failed)
            return;
        if (session->reader)
            session->reader->row(session->reader->context, cells, columns);
        else if (row == 0)
            break;
    }
    result->rows = (size_t)rows;
}

/* The first table of an answer. */
static void read_table(struct lg_session *session, struct volt_reader *reader)
{
    enum volt_type types[LG_MAX_COLUMNS];
    int64_t columns;

    volt_skip(reader, 4 + 4 + 1); /* lengths of the table and of its head, the status */
    columns = volt_get(reader, 2);
    if (columns < 0 || columns > LG_MAX_COLUMNS) {
        reader->failed = true;
        return;
    }
    for (int64_t i = 0; i < columns; i++)
        types[i] = (enum volt_type)volt_get(reader, 1);
    for (int64_t i = 0; i < columns; i++)
        volt_skip(reader, volt_get(reader, 4)); /* its name */
    read_rows(session, reader, types, (size_t)columns);
}

static enum lg_state lost(struct lg_session *session, const char *why)
{
    char words[200];

    snprintf(words, sizeof words, "the connection was lost: %s", why);
    return lg_result_lost(session->result, words);
}

/* The answer in `in` as the result. */
static enum lg_state take_answer(struct lg_session *session)
{
    struct lg_result *result = session->result;
    struct volt_reader reader = {session->in.bytes + VOLT_LENGTH_BYTES,
                                 session->in.bytes + session->in.length, false};
    const char *words = NULL, *app_words = NULL;
    size_t length = 0, app_length = 0;
    char app_status[sizeof result->code];
    int64_t handle, fields, status;

    volt_skip(&reader, 1); /* the version */
    handle = volt_get(&reader, 8);
    fields = volt_get(&reader, 1);
    status = volt_get(&reader, 1);
    if (fields & HAS_STATUS)
        volt_get_string(&reader, &words, &length);
    volt_skip(&reader, 1); /* the application's status as a number */
    if (fields & HAS_APP_STATUS)
        volt_get_string(&reader, &app_words, &app_length);
    volt_skip(&reader, 4); /* time in the server */
    if (fields & HAS_EXCEPTION)
        volt_skip(&reader, volt_get(&reader, 4));
    if (fields & HAS_HASH)
        volt_skip(&reader, 4);
    if (reader.failed || handle != session->handle)
        return lost(session, "the server's answer is none to this call");
    lg_first_line(app_status, sizeof app_status, app_words, app_length);
    result->outcome = outcome_of(status, app_status);
    if (status == SUCCESS) {
        if (volt_get(&reader, 2) > 0)
            read_table(session, &reader);
        return reader.failed ? lost(session, "the server's answer cannot be read") : LG_READY;
    }
    if (result->outcome == LG_OK)
        memcpy(result->code, app_status, sizeof app_status);
    else
        snprintf(result->code, sizeof result->code, "%d", (int)status);
    lg_first_line(result->message, sizeof result->message, words, length);
    return LG_READY;
}

/* ---- execution ----------------------------------------------------------------- */

static enum lg_state voltdb_advance(struct lg_session *session)
{
    enum moved moved = send_rest(session, MSG_DONTWAIT);

    if (moved == MOVED_SOME)
        return LG_WANT_WRITE;
    if (moved == MOVED_ALL)
        moved = receive_rest(session, MSG_DONTWAIT);
    if (moved == MOVED_SOME)
        return LG_WANT_READ;
    return moved == MOVED_ALL ? take_answer(session) : lost(session, strerror(errno));
}

static enum lg_state voltdb_submit(struct lg_session *session, const struct lg_statement *statement,
                                   const struct lg_value *values, const struct lg_reader *reader)
{
    const struct volt_call *call = &session->calls[statement - session->statements];
    enum moved moved;

    session->reader = reader;
    lg_result_begin(session->result);
    volt_call_write(call, statement, values, &session->out, ++session->handle);
    session->sent = 0;
    session->in.length = 0;
    moved = send_rest(session, MSG_DONTWAIT);
    if (moved == MOVED_LOST)
        return lost(session, strerror(errno));
    return moved == MOVED_ALL ? LG_WANT_READ : LG_WANT_WRITE;
}

/* ---- bulk load ----------------------------------------------------------------- */

/* Sends the rows that wait; false with the error. */
static bool flush(struct lg_session *session, struct tb_error *error)
{
    struct volt_bulk *bulk = &session->bulk;
    struct lg_result *result = session->result;

    if (bulk->waiting == 0)
        return true;
    lg_result_begin(result);
    session->reader = NULL;
    volt_bulk_write_call(bulk, &session->out, ++session->handle);
    if (!exchange(session))
        lost(session, strerror(errno));
    else
        take_answer(session);
    if (result->outcome != LG_OK || result->rows != 1 || result->first[0].text == NULL ||
        strtoll(result->first[0].text, NULL, 10) != bulk->waiting)
        return tb_fail(error, "VoltDB: load %lld rows into %s: %s", (long long)bulk->waiting,
                       bulk->table, result->message);
    volt_bulk_sent(bulk);
    return true;
}

static bool voltdb_bulk_begin(struct lg_session *session, const char *table, const char *names,
                              struct tb_error *error)
{
    return volt_bulk_begin(&session->bulk, table, names, error);
}

/* Rows are whole: none begins in one call and ends in another. */
static bool voltdb_bulk_write(struct lg_session *session, const char *rows, size_t length,
                              struct tb_error *error)
{
    struct volt_bulk *bulk = &session->bulk;
    const char *at = rows, *newline;
    bool done = true;

    while (done && (newline = memchr(at, '\n', (size_t)(rows + length - at))) != NULL) {
        if (volt_bulk_is_full(bulk, at, (size_t)(newline - at)))
            done = flush(session, error);
        done = done && volt_bulk_add(bulk, at, (size_t)(newline - at), error);
        at = newline + 1;
    }
    return done;
}

static int64_t voltdb_bulk_end(struct lg_session *session, struct tb_error *error)
{
    return flush(session, error) ? session->bulk.stored : -1;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = voltdb_open,
    .close = voltdb_close,
    .connect = voltdb_connect,
    .disconnect = voltdb_disconnect,
    .descriptor = voltdb_descriptor,
    .submit = voltdb_submit,
    .advance = voltdb_advance,
    .bulk_begin = voltdb_bulk_begin,
    .bulk_write = voltdb_bulk_write,
    .bulk_end = voltdb_bulk_end,
};

/*
 * PostgreSQL through libpq.
 *
 *   "backend": "postgres",
 *   "connection": {"host": "/run/server", "port": 5432, "user": "…", "password": "…",
 *                  "database": "…", "options": "-c search_path=…", "sslmode": "verify-full",
 *                  "ca_certificate": "-----BEGIN CERTIFICATE-----…"}
 *
 * Members of "connection" are libpq's keywords ("database" is its dbname, and "ca_certificate" the
 * text of its sslrootcert); a member that is null is ignored. A statement is prepared once per
 * connection; the server reports the types of its parameters, which are sent in binary format, so
 * that the server parses nothing. An execution is one send and, if the answer fits libpq's buffer,
 * one receive: nothing here waits, reads the clock or copies a row.
 *
 * An error of SQLSTATE class TB comes from a procedure that has undone its own work as intended
 * (New-Order with an unused item): the result is LG_OK without rows, and `code` says which.
 */
#include "loadgen_values.h"

#include <libpq-fe.h>

enum { MAX_KEYWORDS = 48 };

struct lg_client {
    const char *keywords[MAX_KEYWORDS + 1];
    char *values[MAX_KEYWORDS + 1];
    size_t count;
    const char *isolation; /* of every session; NULL: the server's */
    int authority; /* the file of "ca_certificate"; -1 without one */
};

struct prepared {
    char name[24];
    Oid types[LG_MAX_PARAMETERS];
};

struct lg_session {
    PGconn *server;
    const struct lg_statement *statements;
    struct prepared *prepared;
    PGresult *kept; /* `result` points into its first row */
    const struct lg_reader *reader; /* of the running statement; may be NULL */
    struct lg_result *result;
    bool failed; /* this execution; results after the error are dropped */
    struct postgres_parameters parameters;
};

/*
 * Sessions publish what they count once a second at most. The table is there because a transaction
 * that has used none publishes nothing.
 */
#define PUBLISH "publish"
#define PUBLISH_SQL "SELECT pg_catalog.pg_stat_force_next_flush() FROM pg_catalog.pg_am LIMIT 1"
enum { PUBLISHES = 150000 /* the first release that can */ };

/* ---- connection ---------------------------------------------------------------- */

static bool add_keyword(struct lg_client *client, const char *keyword, const char *text,
                        struct tb_error *error)
{
    if (client->count == MAX_KEYWORDS)
        return tb_fail(error, "connection: more than %d members", MAX_KEYWORDS);
    client->keywords[client->count] = keyword;
    client->values[client->count] = strdup(text);
    return client->values[client->count++] != NULL;
}

static bool add_member(struct lg_client *client, const char *name, const json_t *value,
                       struct tb_error *error)
{
    const char *text = json_string_value(value);
    char number[32], path[64];

    if (json_is_null(value))
        return true;
    if (json_is_integer(value) && strcmp(name, "isolation") != 0) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        text = number;
    }
    if (text == NULL)
        return tb_fail(error, "connection.%s: must be a text or a whole number", name);
    if (strcmp(name, "isolation") == 0) {
        client->isolation = text; /* of the spec, which outlives the client */
        return true;
    }
    if (strcmp(name, "database") == 0)
        return add_keyword(client, "dbname", text, error);
    if (strcmp(name, "ca_certificate") != 0)
        return add_keyword(client, name, text, error);
    /* Every new connection reads it again. */
    client->authority = lg_text_file(text, path, sizeof path, error);
    return client->authority >= 0 && add_keyword(client, "sslrootcert", path, error);
}

static void postgres_close(struct lg_client *client)
{
    if (client->authority >= 0)
        close(client->authority);
    for (size_t i = 0; i < client->count; i++)
        free(client->values[i]);
    free(client);
}

/* The names belong to the spec, which outlives the client. */
static struct lg_client *postgres_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *client = tb_allocate(1, sizeof *client);
    const char *name;
    json_t *value;

    client->authority = -1;
    json_object_foreach((json_t *)connection, name, value) {
        if (!add_member(client, name, value, error)) {
            postgres_close(client);
            return NULL;
        }
    }
    return client;
}

static void ignore_notice(void *unused, const char *message)
{
}

/* Always false. */
static bool fail_with_server(struct lg_session *session, const char *action, const char *what,
                             struct tb_error *error)
{
    const char *words = PQerrorMessage(session->server);

    return tb_fail(error, "PostgreSQL: %s %s: %.*s", action, what, (int)strcspn(words, "\n"),
                   words);
}

/* Whether it ended as expected; frees its result. */
static bool ended(PGresult *result, ExecStatusType wanted)
{
    bool done = PQresultStatus(result) == wanted;

    PQclear(result);
    return done;
}

/* `sql` of the statement with $1, $2 … for its names, one for each mention. */
static struct tb_text numbered(const struct lg_statement *statement)
{
    struct tb_text text = {0};
    const char *rest = statement->sql;

    for (size_t i = 0; i < statement->parameter_count; i++) {
        const struct lg_parameter *parameter = &statement->parameters[i];

        tb_text_add(&text, rest, (size_t)(statement->sql + parameter->begin - rest));
        tb_text_printf(&text, "$%zu", i + 1);
        rest = statement->sql + parameter->end;
    }
    tb_text_add(&text, rest, strlen(rest) + 1);
    return text;
}

static bool learn_types(struct lg_session *session, struct prepared *prepared)
{
    PGresult *description = PQdescribePrepared(session->server, prepared->name);
    bool known = PQresultStatus(description) == PGRES_COMMAND_OK;

    for (int i = 0; known && i < PQnparams(description); i++)
        prepared->types[i] = PQparamtype(description, i);
    PQclear(description);
    return known;
}

static bool prepare(struct lg_session *session, size_t index, struct tb_error *error)
{
    const struct lg_statement *statement = &session->statements[index];
    struct prepared *prepared = &session->prepared[index];
    struct tb_text sql = numbered(statement);
    PGresult *result;

    snprintf(prepared->name, sizeof prepared->name, "s%zu", index);
    result = PQprepare(session->server, prepared->name, sql.bytes, 0, NULL);
    free(sql.bytes);
    return (ended(result, PGRES_COMMAND_OK) && learn_types(session, prepared)) ||
           fail_with_server(session, "prepare", statement->name, error);
}

static void postgres_disconnect(struct lg_session *session)
{
    PQclear(session->kept);
    PQfinish(session->server);
    free(session->prepared);
    free(session->parameters.scratch);
    free(session);
}

static bool set_isolation(struct lg_session *session, const struct lg_client *client)
{
    char sql[100];

    if (client->isolation == NULL)
        return true;
    snprintf(sql, sizeof sql, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL %s",
             client->isolation);
    return ended(PQexec(session->server, sql), PGRES_COMMAND_OK);
}

/* The first execution plans it: before anything is measured. */
static bool prepare_publish(struct lg_session *session)
{
    PGconn *server = session->server;

    return PQserverVersion(server) < PUBLISHES ||
           (ended(PQprepare(server, PUBLISH, PUBLISH_SQL, 0, NULL), PGRES_COMMAND_OK) &&
            ended(PQexecPrepared(server, PUBLISH, 0, NULL, NULL, NULL, 0), PGRES_TUPLES_OK));
}

static struct lg_session *postgres_connect(struct lg_client *client,
                                           const struct lg_statement *statements, size_t count,
                                           struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);

    session->result = result;
    session->statements = statements;
    session->prepared = tb_allocate(count + 1, sizeof *session->prepared);
    session->server =
        PQconnectdbParams(client->keywords, (const char *const *)client->values, 0);
    if (PQstatus(session->server) != CONNECTION_OK || !set_isolation(session, client)) {
        fail_with_server(session, "connect", "to the server", error);
        postgres_disconnect(session);
        return NULL;
    }
    PQsetNoticeProcessor(session->server, ignore_notice, NULL);
    if (!prepare_publish(session)) {
        fail_with_server(session, "prepare", "the publication of counters", error);
        postgres_disconnect(session);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (!prepare(session, i, error)) {
            postgres_disconnect(session);
            return NULL;
        }
    }
    PQsetnonblocking(session->server, 1);
    return session;
}

static int postgres_descriptor(struct lg_session *session)
{
    return PQsocket(session->server);
}

/* ---- execution ----------------------------------------------------------------- */

static enum lg_state lost(struct lg_session *session)
{
    const char *words = PQerrorMessage(session->server);

    return lg_result_lost(session->result, *words ? words : "the connection was closed");
}

static void begin_execution(struct lg_session *session, const struct lg_reader *reader)
{
    PQclear(session->kept);
    session->kept = NULL;
    session->failed = false;
    session->reader = reader;
    lg_result_begin(session->result);
}

static enum lg_state sent(struct lg_session *session, int queued)
{
    int unsent = queued ? PQflush(session->server) : -1;

    if (unsent < 0)
        return lost(session);
    return unsent == 0 ? LG_WANT_READ : LG_WANT_WRITE;
}

static enum lg_state postgres_publish(struct lg_session *session)
{
    begin_execution(session, NULL);
    if (PQserverVersion(session->server) < PUBLISHES)
        return LG_READY;
    return sent(session,
                PQsendQueryPrepared(session->server, PUBLISH, 0, NULL, NULL, NULL, 0));
}

static enum lg_state postgres_submit(struct lg_session *session,
                                     const struct lg_statement *statement,
                                     const struct lg_value *values, const struct lg_reader *reader)
{
    const struct prepared *prepared = &session->prepared[statement - session->statements];
    struct postgres_parameters *parameters = &session->parameters;

    begin_execution(session, reader);
    return sent(session,
                postgres_write_parameters(parameters, statement, prepared->types, values) &&
                    PQsendQueryPrepared(session->server, prepared->name,
                                        (int)statement->parameter_count, parameters->places,
                                        parameters->lengths, parameters->formats,
                                        POSTGRES_TEXT_FORMAT));
}

/* 08: connection; 57P01 … 57P03: shut down, crashed, starting up. */
static enum lg_outcome outcome_of(const char *code)
{
    if (strncmp(code, "TB", 2) == 0)
        return LG_OK;
    if (strcmp(code, "40001") == 0 || strcmp(code, "40P01") == 0 || strcmp(code, "55P03") == 0)
        return LG_RETRY;
    if (strncmp(code, "08", 2) == 0 || strncmp(code, "57P0", 4) == 0)
        return LG_LOST;
    return LG_REFUSED;
}

static void keep_error(struct lg_session *session, const PGresult *received)
{
    struct lg_result *result = session->result;
    const char *code = PQresultErrorField(received, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(received, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(received, PG_DIAG_MESSAGE_DETAIL);
    size_t length;

    session->failed = true;
    result->rows = result->columns = 0;
    if (code == NULL) { /* libpq's own error, not the server's */
        lost(session);
        return;
    }
    result->outcome = outcome_of(code);
    lg_first_line(result->code, sizeof result->code, code, strlen(code));
    if (words != NULL)
        lg_first_line(result->message, sizeof result->message, words, strlen(words));
    length = strlen(result->message);
    if (detail != NULL)
        snprintf(result->message + length, sizeof result->message - length, " (%s)", detail);
}

static void read_row(const struct lg_reader *reader, const PGresult *received, int row, int columns)
{
    struct lg_cell cells[LG_MAX_COLUMNS];

    for (int i = 0; i < columns; i++) {
        cells[i].text = PQgetisnull(received, row, i) ? NULL : PQgetvalue(received, row, i);
        cells[i].length = (size_t)PQgetlength(received, row, i);
    }
    reader->row(reader->context, cells, (size_t)columns);
}

/* Takes over a result: its first row is valid until the next submit. */
static void keep_rows(struct lg_session *session, PGresult *received)
{
    struct lg_result *result = session->result;
    int columns = PQnfields(received);

    PQclear(session->kept);
    session->kept = received;
    result->rows = (size_t)PQntuples(received);
    result->columns = columns > LG_MAX_COLUMNS ? LG_MAX_COLUMNS : (size_t)columns;
    for (int i = 0; result->rows > 0 && i < (int)result->columns; i++) {
        result->first[i].text = PQgetisnull(received, 0, i) ? NULL : PQgetvalue(received, 0, i);
        result->first[i].length = (size_t)PQgetlength(received, 0, i);
    }
    for (int row = 0; session->reader && row < PQntuples(received); row++)
        read_row(session->reader, received, row, (int)result->columns);
}

static void take(struct lg_session *session, PGresult *received)
{
    const char *affected;

    switch (PQresultStatus(received)) {
    case PGRES_TUPLES_OK:
        if (!session->failed) {
            keep_rows(session, received);
            return;
        }
        break;
    case PGRES_COMMAND_OK:
        affected = PQcmdTuples(received); /* "UPDATE 1" has a number, "CALL" has none */
        if (*affected)
            session->result->affected = strtoll(affected, NULL, 10);
        break;
    case PGRES_EMPTY_QUERY:
        break;
    default:
        if (!session->failed)
            keep_error(session, received);
    }
    PQclear(received);
}

static enum lg_state postgres_advance(struct lg_session *session)
{
    int unsent = PQflush(session->server);

    if (unsent < 0 || PQconsumeInput(session->server) == 0)
        return lost(session);
    while (!PQisBusy(session->server)) {
        PGresult *received = PQgetResult(session->server);

        if (received == NULL)
            return session->result->outcome != LG_LOST &&
                           PQstatus(session->server) != CONNECTION_OK
                       ? lost(session)
                       : LG_READY;
        take(session, received);
    }
    return unsent == 0 ? LG_WANT_READ : LG_WANT_WRITE;
}

/* ---- bulk load ----------------------------------------------------------------- */

static bool postgres_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                                struct tb_error *error)
{
    char command[1024];

    PQsetnonblocking(session->server, 0);
    if ((size_t)snprintf(command, sizeof command, "COPY %s (%s) FROM STDIN", table, columns) >=
        sizeof command)
        return tb_fail(error, "copy into %s: the names of its columns are too long", table);
    if (!ended(PQexec(session->server, command), PGRES_COPY_IN))
        return fail_with_server(session, "copy into", table, error);
    return true;
}

/* The rows stored; -1 with the server's or libpq's message if they were refused. */
static int64_t copied(struct lg_session *session, bool sent, struct tb_error *error)
{
    int64_t rows = -1;
    PGresult *received;

    if (!sent)
        fail_with_server(session, "copy", "rows", error);
    while ((received = PQgetResult(session->server)) != NULL) {
        if (PQresultStatus(received) == PGRES_COMMAND_OK)
            rows = strtoll(PQcmdTuples(received), NULL, 10);
        else if (PQresultStatus(received) == PGRES_FATAL_ERROR)
            fail_with_server(session, "copy", "rows", error);
        else if (PQresultStatus(received) == PGRES_COPY_IN)
            sent = PQputCopyEnd(session->server, "given up") == 1;
        PQclear(received);
    }
    return sent ? rows : -1;
}

static bool postgres_bulk_write(struct lg_session *session, const char *rows, size_t length,
                                struct tb_error *error)
{
    while (length > 0) {
        size_t piece = length > INT_MAX ? INT_MAX : length;

        if (PQputCopyData(session->server, rows, (int)piece) != 1) {
            copied(session, false, error);
            return false;
        }
        rows += piece;
        length -= piece;
    }
    return true;
}

static int64_t postgres_bulk_end(struct lg_session *session, struct tb_error *error)
{
    return copied(session, PQputCopyEnd(session->server, NULL) == 1, error);
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = postgres_open,
    .close = postgres_close,
    .connect = postgres_connect,
    .disconnect = postgres_disconnect,
    .descriptor = postgres_descriptor,
    .submit = postgres_submit,
    .advance = postgres_advance,
    .publish = postgres_publish,
    .bulk_begin = postgres_bulk_begin,
    .bulk_write = postgres_bulk_write,
    .bulk_end = postgres_bulk_end,
};

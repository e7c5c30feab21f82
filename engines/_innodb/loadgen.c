/*
 * MySQL and MariaDB through MariaDB's Connector/C.
 *
 *   "backend": "innodb",
 *   "connection": {"socket": "/run/server/sql.sock", "user": "…", "password": "…",
 *                  "database": "…"}
 *   or, instead of "socket", "host", "port", "tls" ("preferred", "off") and "ssl_ca" (a file) or
 *   "ca_certificate" (its text; both require TLS and verify the certificate).
 *
 * A statement is sent as text with its values (loadgen_text.c). A prepared CALL took the same
 * client time and 20 µs less of the server's 200 to 1500 µs, but the columns and buffers of each
 * of its result sets have to be bound again.
 *
 * The query is sent at once and nothing is read before the descriptor is ready, so an execution
 * is one send, and one receive per packet burst of the server. Reading uses the library's
 * non-blocking calls: each ends, or returns what it waits for.
 *
 * After an error, the rest of the transaction is rolled back before the result is returned: a
 * lock timeout undoes only its statement, and the next START TRANSACTION would commit the rest.
 */
#include "loadgen_innodb.h"

#include <errmsg.h>
#include <mysqld_error.h>

enum {
    CONNECT_TIMEOUT_S = 15,
    /* Errors that one of the servers, or an older client library, does not have. */
    CHANGED_SINCE_READ = 1020,  /* MariaDB's innodb_snapshot_isolation */
    LOCK_NOWAIT = 3572,
    IDLE_TOO_LONG = 4031,
    KILLED_MARIADB = 1927,
    KILLED_MYSQL = 3169,
};

/* Strict: truncated or out-of-range values are errors, whatever the server's default. */
static const char SESSION[] =
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', autocommit = 1";

/* The texts belong to the spec, which outlives the client. */
struct lg_client {
    const char *socket, *host, *user, *password, *database, *ssl_ca;
    const char *isolation; /* of every session; NULL: the server's */
    unsigned port;
    bool tls;
    int authority; /* the file of "ca_certificate"; -1 without one */
    char authority_path[64];
};

/* ---- connection ---------------------------------------------------------------- */

static const char *text_of(const json_t *connection, const char *name)
{
    return json_string_value(json_object_get(connection, name));
}

static void innodb_close(struct lg_client *client)
{
    if (client->authority >= 0)
        close(client->authority);
    free(client);
}

/* "ca_certificate" as "ssl_ca": every new connection reads that file again. */
static bool add_authority(struct lg_client *client, const char *certificate, struct tb_error *error)
{
    client->ssl_ca = client->authority_path;
    client->authority = lg_text_file(certificate, client->authority_path,
                                     sizeof client->authority_path, error);
    return client->authority >= 0;
}

static struct lg_client *innodb_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *client = tb_allocate(1, sizeof *client);
    const char *tls = text_of(connection, "tls");
    const char *certificate = text_of(connection, "ca_certificate");

    *client = (struct lg_client){
        .socket = text_of(connection, "socket"),
        .host = text_of(connection, "host"),
        .user = text_of(connection, "user"),
        .password = text_of(connection, "password"),
        .database = text_of(connection, "database"),
        .ssl_ca = text_of(connection, "ssl_ca"),
        .isolation = text_of(connection, "isolation"),
        .port = (unsigned)json_integer_value(json_object_get(connection, "port")),
        .tls = tls == NULL || strcmp(tls, "off") != 0,
        .authority = -1,
    };
    if (!client->user || !client->database || !client->socket == !client->host) {
        tb_fail(error, "connection: has user, database, and either socket or host");
    } else if (!certificate || add_authority(client, certificate, error)) {
        mysql_library_init(0, NULL, NULL);
        return client;
    }
    innodb_close(client);
    return NULL;
}

static void forget(MYSQL_RES **rows)
{
    if (*rows)
        mysql_free_result(*rows);
    *rows = NULL;
}

static void innodb_disconnect(struct lg_session *session)
{
    forget(&session->rows);
    forget(&session->kept);
    mysql_close(&session->server);
    free(session->loader.stack);
    free(session->loader.sql.bytes);
    free(session->sql.bytes);
    free(session);
}

static void set_options(MYSQL *server, const struct lg_client *client)
{
    unsigned timeout = CONNECT_TIMEOUT_S, files = 1;
    my_bool verify = 1;

    mysql_options(server, MYSQL_OPT_NONBLOCK, NULL);
    mysql_options(server, MYSQL_OPT_CONNECT_TIMEOUT, &timeout);
    mysql_options(server, MYSQL_OPT_LOCAL_INFILE, &files);
    mysql_options(server, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(server, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "harness-loadgen");
    if (client->host && client->tls)
        mysql_ssl_set(server, NULL, NULL, client->ssl_ca, NULL, NULL);
    if (client->host && client->ssl_ca)
        mysql_options(server, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
}

static bool set_session(MYSQL *server, const struct lg_client *client)
{
    char isolation[80];
    int length = snprintf(isolation, sizeof isolation,
                          "SET SESSION TRANSACTION ISOLATION LEVEL %s",
                          client->isolation ? client->isolation : "");

    return !mysql_real_query(server, SESSION, sizeof SESSION - 1) &&
           (!client->isolation || !mysql_real_query(server, isolation, (unsigned long)length));
}

static struct lg_session *innodb_connect(struct lg_client *client,
                                         const struct lg_statement *statements, size_t count,
                                         struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);

    session->result = result;
    if (mysql_init(&session->server) == NULL)
        abort(); /* out of memory */
    set_options(&session->server, client);
    /* An empty host is this machine, by the socket. */
    if (!mysql_real_connect(&session->server, client->socket ? "localhost" : client->host,
                            client->user, client->password, client->database, client->port,
                            client->socket, CLIENT_MULTI_STATEMENTS) ||
        !set_session(&session->server, client)) {
        innodb_fail(&session->server, "connect", error);
        innodb_disconnect(session);
        return NULL;
    }
    return session;
}

static int innodb_descriptor(struct lg_session *session)
{
    return (int)mysql_get_socket(&session->server);
}

/* ---- execution ----------------------------------------------------------------- */

static enum lg_outcome outcome_of(unsigned code)
{
    switch (code) {
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_LOCK_DEADLOCK:
    case LOCK_NOWAIT:
    case CHANGED_SINCE_READ:
        return LG_RETRY;
    case ER_SERVER_SHUTDOWN:
    case KILLED_MARIADB:
    case KILLED_MYSQL:
    case IDLE_TOO_LONG:
        return LG_LOST;
    default:
        return code >= CR_MIN_ERROR && code <= CR_MAX_ERROR ? LG_LOST : LG_REFUSED;
    }
}

/* The next row's cells, valid as long as the set; false after the last row. */
static bool fetch(MYSQL_RES *rows, struct lg_cell *cells, size_t columns)
{
    MYSQL_ROW row = mysql_fetch_row(rows);
    unsigned long *lengths = row ? mysql_fetch_lengths(rows) : NULL;

    for (size_t i = 0; row && i < columns; i++)
        cells[i] = (struct lg_cell){row[i], lengths[i]};
    return row != NULL;
}

static void read_rows(const struct lg_reader *reader, MYSQL_RES *rows, size_t columns)
{
    struct lg_cell cells[LG_MAX_COLUMNS];

    mysql_data_seek(rows, 0);
    while (fetch(rows, cells, columns))
        reader->row(reader->context, cells, columns);
}

/* Retains the first row of any result set; the other rows have been received. */
static void keep_rows(struct lg_session *session)
{
    struct lg_result *result = session->result;
    MYSQL_RES *rows = session->rows;
    size_t columns;

    if (rows == NULL)
        return;
    columns = mysql_num_fields(rows);
    if (columns > LG_MAX_COLUMNS)
        columns = LG_MAX_COLUMNS;
    result->rows += mysql_num_rows(rows);
    if (session->reader)
        read_rows(session->reader, rows, columns);
    mysql_data_seek(rows, 0);
    if (session->kept || !fetch(rows, result->first, columns)) {
        forget(&session->rows);
        return;
    }
    result->columns = columns;
    session->kept = rows;
    session->rows = NULL;
}

/* An UPDATE also counts the rows it matched: "Rows matched: 1  Changed: 0  Warnings: 0". */
static void keep_status(struct lg_session *session)
{
    const char *info = mysql_info(&session->server);
    unsigned long long matched;

    if (info && sscanf(info, "Rows matched: %llu", &matched) == 1)
        session->result->affected = (int64_t)matched;
    else
        session->result->affected = (int64_t)mysql_affected_rows(&session->server);
}

static enum phase fail(struct lg_session *session)
{
    struct lg_result *result = session->result;
    unsigned code = mysql_errno(&session->server);

    result->outcome = outcome_of(code);
    snprintf(result->code, sizeof result->code, "%u", code);
    innodb_say(result->message, sizeof result->message, mysql_error(&session->server));
    return result->outcome == LG_LOST ? PHASE_DONE : PHASE_UNDO;
}

/* The phase after a result set, or after the status of a statement without one. */
static enum phase behind_rows(struct lg_session *session)
{
    return mysql_more_results(&session->server) ? PHASE_NEXT : PHASE_DONE;
}

/* Starts or resumes the call of a phase; returns what it waits for, 0 at its end. */
static int call(struct lg_session *session, int ready)
{
    MYSQL *server = &session->server;
    bool begun = session->waits != 0;

    switch (session->phase) {
    case PHASE_SENDING:
        return begun ? mysql_send_query_cont(&session->query_failed, server, ready)
                     : mysql_send_query_start(&session->query_failed, server,
                                              session->sql.bytes, session->sql.length);
    case PHASE_ANSWER:
        return begun ? mysql_read_query_result_cont(&session->answer_failed, server, ready)
                     : mysql_read_query_result_start(&session->answer_failed, server);
    case PHASE_ROWS:
        return begun ? mysql_store_result_cont(&session->rows, server, ready)
                     : mysql_store_result_start(&session->rows, server);
    case PHASE_NEXT:
        return begun ? mysql_next_result_cont(&session->next, server, ready)
                     : mysql_next_result_start(&session->next, server);
    case PHASE_UNDO:
        return begun ? mysql_real_query_cont(&session->query_failed, server, ready)
                     : mysql_real_query_start(&session->query_failed, server, "ROLLBACK", 8);
    default:
        return 0;
    }
}

/* The phase after one whose call has ended. */
static enum phase phase_after(struct lg_session *session)
{
    MYSQL *server = &session->server;

    switch (session->phase) {
    case PHASE_SENDING:
        return session->query_failed ? fail(session) : PHASE_SENT;
    case PHASE_ANSWER:
    case PHASE_NEXT:
        if (session->phase == PHASE_NEXT ? session->next > 0 : session->answer_failed)
            return fail(session);
        if (mysql_field_count(server))
            return PHASE_ROWS;
        keep_status(session);
        return behind_rows(session);
    case PHASE_ROWS:
        if (session->rows == NULL)
            return fail(session);
        keep_rows(session);
        return behind_rows(session);
    case PHASE_UNDO:
        if (session->query_failed)
            session->result->outcome = LG_LOST;
        return PHASE_DONE;
    default:
        return PHASE_DONE;
    }
}

/* Advances as far as possible without waiting. */
static enum lg_state advance(struct lg_session *session, int ready)
{
    while (session->phase != PHASE_DONE) {
        session->waits = call(session, ready);
        if (session->waits)
            return session->waits & MYSQL_WAIT_WRITE ? LG_WANT_WRITE : LG_WANT_READ;
        session->phase = phase_after(session);
        if (session->phase == PHASE_SENT)
            return LG_WANT_READ;
    }
    return LG_READY;
}

static enum lg_state innodb_advance(struct lg_session *session)
{
    if (session->phase == PHASE_SENT)
        session->phase = PHASE_ANSWER;
    return advance(session, session->waits & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE));
}

static enum lg_state innodb_submit(struct lg_session *session, const struct lg_statement *statement,
                                   const struct lg_value *values,
                                   const struct lg_reader *reader)
{
    forget(&session->kept);
    session->reader = reader;
    lg_result_begin(session->result);
    innodb_write_statement(&session->sql, statement, values);
    session->phase = PHASE_SENDING;
    session->waits = 0;
    return advance(session, 0);
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = innodb_open,
    .close = innodb_close,
    .connect = innodb_connect,
    .disconnect = innodb_disconnect,
    .descriptor = innodb_descriptor,
    .submit = innodb_submit,
    .advance = innodb_advance,
    .bulk_begin = innodb_bulk_begin,
    .bulk_write = innodb_bulk_write,
    .bulk_end = innodb_bulk_end,
};

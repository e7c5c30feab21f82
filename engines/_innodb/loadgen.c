/*
 * MySQL and MariaDB through MariaDB's Connector/C.
 *
 *   "backend": "innodb",
 *   "connection": {"socket": "/run/server/sql.sock", "user": "…", "password": "…",
 *                  "database": "…"}
 *   or "host", "port", "tls" ("preferred", "off") and "ssl_ca" (a file: encrypted always,
 *   the certificate checked) in place of "socket".
 *
 * A statement goes as text, its values written into it: for a CALL with a handful of numbers
 * that costs client and server less than a prepared one, whose every result comes with
 * buffers to be bound. An array is the text [1,2,3]; arrays that follow one another with
 * nothing between, `:a:b`, are one text of their rows, [[1,4],[2,5],[3,6]].
 *
 * The query is sent at once and nothing is read before the descriptor is ready, so that an
 * execution is one send and one receive for each packet burst of the server's. Reading
 * goes by the library's non-blocking calls: each ends, or says what it waits for.
 *
 * Whatever an error has left of a transaction is rolled back before the result is told:
 * a lock timeout undoes only its statement, and the next START TRANSACTION would commit
 * the rest.
 *
 * LOAD DATA LOCAL *pulls* its rows while `bulk_write` *pushes* them. So the statement runs
 * on a stack of its own, which is left whenever it has used up what was pushed.
 */
#include "workload.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    CONNECT_TIMEOUT_S = 15,
    LOADER_STACK_BYTES = 256 * 1024,
    /* Errors that one of the two servers, or an older client library, does not know. */
    CHANGED_SINCE_READ = 1020,  /* MariaDB's innodb_snapshot_isolation */
    LOCAL_DISABLED_OLD = 1148,
    LOCAL_DISABLED_MYSQL = 3948,
    LOCAL_DISABLED_MARIADB = 4166,
    LOCK_NOWAIT = 3572,
    IDLE_TOO_LONG = 4031,
    KILLED_MARIADB = 1927,
    KILLED_MYSQL = 3169,
};

/* Strict, whatever the server's default: what is cut or out of range is an error. */
static const char SESSION[] =
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', autocommit = 1";
/* Keys come from a generator, and MariaDB locks an empty table to fill it faster. */
static const char LOADING[] =
    "SET SESSION unique_checks = 0, foreign_key_checks = 0, innodb_lock_wait_timeout = 86400";

struct client {
    char *socket, *host, *user, *password, *database, *ssl_ca;
    unsigned port;
    bool tls;
};

enum phase { PHASE_SENDING, PHASE_SENT, PHASE_ANSWER, PHASE_ROWS, PHASE_NEXT, PHASE_UNDO, PHASE_DONE };

/* A LOAD DATA under way, on its own stack. */
struct loader {
    ucontext_t writer, self;
    char *stack;
    struct lg_text sql;
    const char *rows; /* pushed and not yet pulled */
    size_t length;
    bool prepared, running, ended;
    int failed;
};

struct connection {
    MYSQL server;
    struct lg_text sql;
    enum phase phase;
    int waits; /* what the library's call under way waits for; 0 where none is */
    int query_failed, next; /* what those calls give back */
    my_bool answer_failed;
    MYSQL_RES *rows, *kept; /* of the set being read; with the first row */
    struct lg_result result;
    struct loader loader;
};

/* ---- connection ---------------------------------------------------------------- */

static char *copy_of(const json_t *connection, const char *name)
{
    const char *text = json_string_value(json_object_get(connection, name));

    return text ? strdup(text) : NULL;
}

static void innodb_close(void *own)
{
    struct client *client = own;

    if (client->password)
        explicit_bzero(client->password, strlen(client->password));
    free(client->socket);
    free(client->host);
    free(client->user);
    free(client->password);
    free(client->database);
    free(client->ssl_ca);
    free(client);
}

static void *innodb_open(const json_t *connection, struct lg_error *error)
{
    struct client *client = calloc(1, sizeof *client);
    const char *tls = json_string_value(json_object_get(connection, "tls"));

    if (client == NULL) {
        lg_fail(error, "connection: out of memory");
        return NULL;
    }
    client->socket = copy_of(connection, "socket");
    client->host = copy_of(connection, "host");
    client->user = copy_of(connection, "user");
    client->password = copy_of(connection, "password");
    client->database = copy_of(connection, "database");
    client->ssl_ca = copy_of(connection, "ssl_ca");
    client->port = (unsigned)json_integer_value(json_object_get(connection, "port"));
    client->tls = tls == NULL || strcmp(tls, "off") != 0;
    if (client->user && client->database && !client->socket != !client->host) {
        mysql_library_init(0, NULL, NULL);
        return client;
    }
    lg_fail(error, "connection: has user, database, and either socket or host");
    innodb_close(client);
    return NULL;
}

/* The server's words; not its language's letters, which may come in any character set. */
static void say(char *to, size_t size, const char *words)
{
    size_t length = 0;

    for (; *words && *words != '\n' && length + 1 < size; words++)
        to[length++] = (unsigned char)*words < 0x80 ? *words : '?';
    to[length] = '\0';
}

static void fail_with_server(struct connection *connection, const char *asked,
                             struct lg_error *error)
{
    char found[512];

    say(found, sizeof found, mysql_error(&connection->server));
    lg_fail(error, "%s: %s (error %u)", asked, found, mysql_errno(&connection->server));
}

static void forget(MYSQL_RES **rows)
{
    if (*rows)
        mysql_free_result(*rows);
    *rows = NULL;
}

static void innodb_disconnect(void *own)
{
    struct connection *connection = own;

    forget(&connection->rows);
    forget(&connection->kept);
    mysql_close(&connection->server);
    free(connection->loader.stack);
    free(connection->loader.sql.bytes);
    free(connection->sql.bytes);
    free(connection);
}

static void set_options(MYSQL *server, const struct client *client)
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

static void *innodb_connect(void *own, const struct lg_statement *statements, size_t count,
                            struct lg_error *error)
{
    struct client *client = own;
    struct connection *connection = calloc(1, sizeof *connection);

    (void)statements;
    (void)count;
    if (connection == NULL || mysql_init(&connection->server) == NULL) {
        lg_fail(error, "connect: out of memory");
        free(connection);
        return NULL;
    }
    set_options(&connection->server, client);
    /* An empty host is the machine itself, by the socket. */
    if (!mysql_real_connect(&connection->server, client->socket ? "localhost" : client->host,
                            client->user, client->password, client->database, client->port,
                            client->socket, CLIENT_MULTI_STATEMENTS) ||
        mysql_real_query(&connection->server, SESSION, sizeof SESSION - 1)) {
        fail_with_server(connection, "connect", error);
        innodb_disconnect(connection);
        return NULL;
    }
    return connection;
}

static int innodb_descriptor(void *own)
{
    struct connection *connection = own;

    return (int)mysql_get_socket(&connection->server);
}

/* ---- the statement's text ------------------------------------------------------ */

static void add_integer(struct lg_text *sql, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        digits[--at] = '-';
    lg_text_add(sql, digits + at, sizeof digits - at);
}

/* 1234 as 12.34, -5 as -0.05. */
static void add_cents(struct lg_text *sql, int64_t cents)
{
    uint64_t left = cents < 0 ? 0 - (uint64_t)cents : (uint64_t)cents;
    char fraction[3] = {'.', (char)('0' + left / 10 % 10), (char)('0' + left % 10)};

    if (cents < 0)
        lg_text_add(sql, "-", 1);
    add_integer(sql, (int64_t)(left / 100));
    lg_text_add(sql, fraction, sizeof fraction);
}

static void add_text(struct lg_text *sql, const char *text, size_t length)
{
    lg_text_add(sql, "'", 1);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            lg_text_add(sql, "\\", 1);
        lg_text_add(sql, text + i, 1);
    }
    lg_text_add(sql, "'", 1);
}

/* One array, or the rows of `count` of them, as long as the first. */
static void add_arrays(struct lg_text *sql, const struct lg_statement *statement, size_t first,
                       size_t count, const struct lg_value *values)
{
    const struct lg_parameter *parameters = &statement->parameters[first];
    size_t rows = values[parameters[0].value].count;

    lg_text_add(sql, "'[", 2);
    for (size_t row = 0; row < rows; row++) {
        if (row > 0)
            lg_text_add(sql, ",", 1);
        if (count > 1)
            lg_text_add(sql, "[", 1);
        for (size_t i = 0; i < count; i++) {
            const struct lg_value *value = &values[parameters[i].value];

            if (i > 0)
                lg_text_add(sql, ",", 1);
            add_integer(sql, row < value->count ? value->integers[row] : 0);
        }
        if (count > 1)
            lg_text_add(sql, "]", 1);
    }
    lg_text_add(sql, "]'", 2);
}

/* How many arrays follow one another from this parameter on; 0 where it is none. */
static size_t arrays_from(const struct lg_statement *statement, size_t first)
{
    size_t count = 0;

    while (first + count < statement->parameter_count &&
           statement->parameters[first + count].kind == LG_INT_ARRAY &&
           (count == 0 || statement->parameters[first + count].begin ==
                              statement->parameters[first + count - 1].end))
        count++;
    return count;
}

static void add_value(struct lg_text *sql, const struct lg_value *value, enum lg_kind kind)
{
    if (value->null)
        lg_text_add(sql, "NULL", 4);
    else if (kind == LG_INT)
        add_integer(sql, value->integer);
    else if (kind == LG_CENTS)
        add_cents(sql, value->integer);
    else
        add_text(sql, value->text, value->length);
}

static void write_statement(struct lg_text *sql, const struct lg_statement *statement,
                            const struct lg_value *values)
{
    size_t done = 0;

    sql->length = 0;
    for (size_t i = 0; i < statement->parameter_count; i++) {
        const struct lg_parameter *parameter = &statement->parameters[i];
        size_t arrays = arrays_from(statement, i);

        lg_text_add(sql, statement->sql + done, parameter->begin - done);
        if (arrays > 0) {
            add_arrays(sql, statement, i, arrays, values);
            i += arrays - 1;
        } else {
            add_value(sql, &values[parameter->value], parameter->kind);
        }
        done = statement->parameters[i].end;
    }
    lg_text_add(sql, statement->sql + done, strlen(statement->sql + done));
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

static enum lg_state state_of(int waits)
{
    return waits & MYSQL_WAIT_WRITE ? LG_WANT_WRITE : LG_WANT_READ;
}

/* Keeps the first row there is, of whichever result set; the others were received. */
static void keep_rows(struct connection *connection)
{
    struct lg_result *result = &connection->result;
    MYSQL_RES *rows = connection->rows;
    unsigned long *lengths;
    MYSQL_ROW row;

    if (rows == NULL)
        return;
    result->rows += mysql_num_rows(rows);
    if (connection->kept || (row = mysql_fetch_row(rows)) == NULL) {
        forget(&connection->rows);
        return;
    }
    lengths = mysql_fetch_lengths(rows);
    result->columns = mysql_num_fields(rows);
    if (result->columns > LG_MAX_COLUMNS)
        result->columns = LG_MAX_COLUMNS;
    for (size_t i = 0; i < result->columns; i++) {
        result->first[i].text = row[i];
        result->first[i].length = lengths[i];
    }
    connection->kept = rows;
    connection->rows = NULL;
}

static enum phase fail(struct connection *connection)
{
    struct lg_result *result = &connection->result;
    unsigned code = mysql_errno(&connection->server);

    result->outcome = outcome_of(code);
    snprintf(result->code, sizeof result->code, "%u", code);
    say(result->message, sizeof result->message, mysql_error(&connection->server));
    return result->outcome == LG_LOST ? PHASE_DONE : PHASE_UNDO;
}

/* What comes behind a result set or the status of a statement without one. */
static enum phase behind_rows(struct connection *connection)
{
    return mysql_more_results(&connection->server) ? PHASE_NEXT : PHASE_DONE;
}

/* Begins the call that a phase stands for, or goes on with it: what it waits for, 0 at its end. */
static int call(struct connection *connection, int ready)
{
    MYSQL *server = &connection->server;
    bool begun = connection->waits != 0;

    switch (connection->phase) {
    case PHASE_SENDING:
        return begun ? mysql_send_query_cont(&connection->query_failed, server, ready)
                     : mysql_send_query_start(&connection->query_failed, server,
                                              connection->sql.bytes, connection->sql.length);
    case PHASE_ANSWER:
        return begun ? mysql_read_query_result_cont(&connection->answer_failed, server, ready)
                     : mysql_read_query_result_start(&connection->answer_failed, server);
    case PHASE_ROWS:
        return begun ? mysql_store_result_cont(&connection->rows, server, ready)
                     : mysql_store_result_start(&connection->rows, server);
    case PHASE_NEXT:
        return begun ? mysql_next_result_cont(&connection->next, server, ready)
                     : mysql_next_result_start(&connection->next, server);
    case PHASE_UNDO:
        return begun ? mysql_real_query_cont(&connection->query_failed, server, ready)
                     : mysql_real_query_start(&connection->query_failed, server, "ROLLBACK", 8);
    default:
        return 0;
    }
}

/* The phase behind one whose call has ended. */
static enum phase behind(struct connection *connection)
{
    MYSQL *server = &connection->server;

    switch (connection->phase) {
    case PHASE_SENDING:
        return connection->query_failed ? fail(connection) : PHASE_SENT;
    case PHASE_ANSWER:
    case PHASE_NEXT:
        if (connection->phase == PHASE_NEXT ? connection->next > 0 : connection->answer_failed)
            return fail(connection);
        return mysql_field_count(server) ? PHASE_ROWS : behind_rows(connection);
    case PHASE_ROWS:
        if (connection->rows == NULL)
            return fail(connection);
        keep_rows(connection);
        return behind_rows(connection);
    case PHASE_UNDO:
        if (connection->query_failed)
            connection->result.outcome = LG_LOST;
        return PHASE_DONE;
    default:
        return PHASE_DONE;
    }
}

/* Goes as far as it can without waiting. */
static enum lg_state advance(struct connection *connection, int ready)
{
    while (connection->phase != PHASE_DONE) {
        connection->waits = call(connection, ready);
        if (connection->waits)
            return state_of(connection->waits);
        connection->phase = behind(connection);
        if (connection->phase == PHASE_SENT)
            return LG_WANT_READ;
    }
    return LG_READY;
}

static enum lg_state innodb_advance(void *own)
{
    struct connection *connection = own;

    if (connection->phase == PHASE_SENT)
        connection->phase = PHASE_ANSWER;
    return advance(connection, connection->waits & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE));
}

static enum lg_state innodb_submit(void *own, const struct lg_statement *statement,
                                   const struct lg_value *values)
{
    struct connection *connection = own;
    struct lg_result *result = &connection->result;

    forget(&connection->kept);
    result->outcome = LG_OK;
    result->rows = result->columns = 0;
    result->code[0] = result->message[0] = '\0';
    write_statement(&connection->sql, statement, values);
    connection->phase = PHASE_SENDING;
    connection->waits = 0;
    return advance(connection, 0);
}

static const struct lg_result *innodb_result(void *own)
{
    struct connection *connection = own;

    return &connection->result;
}

/* ---- bulk load ----------------------------------------------------------------- */

/* Gives the rows pushed so far; leaves the statement's stack while there are none. */
static int pull(void *own, char *to, unsigned size)
{
    struct loader *loader = own;

    while (loader->length == 0 && !loader->ended)
        swapcontext(&loader->self, &loader->writer);
    if (loader->length < size)
        size = (unsigned)loader->length;
    memcpy(to, loader->rows, size);
    loader->rows += size;
    loader->length -= size;
    return (int)size;
}

static int pull_begins(void **given, const char *name, void *own)
{
    (void)name;
    *given = own;
    return 0;
}

static void pull_ends(void *own)
{
    (void)own;
}

static int pull_error(void *own, char *message, unsigned size)
{
    (void)own;
    snprintf(message, size, "the rows could not be read");
    return CR_UNKNOWN_ERROR;
}

/* What runs on the loader's stack; makecontext hands over no more than int. */
static void run_loader(unsigned high, unsigned low)
{
    struct connection *connection =
        (struct connection *)(((uintptr_t)high << 32) | (uintptr_t)low);
    struct loader *loader = &connection->loader;

    loader->failed =
        mysql_real_query(&connection->server, loader->sql.bytes, loader->sql.length);
    loader->running = false;
    swapcontext(&loader->self, &loader->writer);
}

/* Once a connection: how it loads. */
static bool prepare_loader(struct connection *connection, struct lg_error *error)
{
    struct loader *loader = &connection->loader;

    if (loader->prepared)
        return true;
    loader->stack = malloc(LOADER_STACK_BYTES);
    if (loader->stack == NULL) {
        lg_fail(error, "out of memory");
        return false;
    }
    if (mysql_real_query(&connection->server, LOADING, sizeof LOADING - 1)) {
        fail_with_server(connection, "LOAD DATA", error);
        return false;
    }
    mysql_set_local_infile_handler(&connection->server, pull_begins, pull, pull_ends,
                                   pull_error, loader);
    loader->prepared = true;
    return true;
}

static bool innodb_bulk_begin(void *own, const char *table, const char *columns,
                              struct lg_error *error)
{
    struct connection *connection = own;
    struct loader *loader = &connection->loader;
    uintptr_t address = (uintptr_t)connection;

    if (!prepare_loader(connection, error))
        return false;
    loader->sql.length = 0;
    lg_text_printf(&loader->sql,
                   "LOAD DATA LOCAL INFILE 'rows' INTO TABLE %s CHARACTER SET latin1 (%s)", table,
                   columns);
    loader->length = 0;
    loader->ended = false;
    loader->running = true;
    getcontext(&loader->self);
    loader->self.uc_stack.ss_sp = loader->stack;
    loader->self.uc_stack.ss_size = LOADER_STACK_BYTES;
    loader->self.uc_link = NULL;
    makecontext(&loader->self, (void (*)(void))run_loader, 2, (unsigned)(address >> 32),
                (unsigned)address);
    return true;
}

/* Lets the statement go on until it wants more rows than there are, or has ended. */
static void resume(struct loader *loader)
{
    if (loader->running)
        swapcontext(&loader->writer, &loader->self);
}

static bool fail_load(struct connection *connection, struct lg_error *error)
{
    unsigned code = mysql_errno(&connection->server);

    fail_with_server(connection, "LOAD DATA", error);
    if (code == LOCAL_DISABLED_MYSQL || code == LOCAL_DISABLED_MARIADB ||
        code == LOCAL_DISABLED_OLD)
        lg_fail(error,
                "the server takes no rows from clients (error %u): "
                "let it do so by SET GLOBAL local_infile = ON",
                code);
    return false;
}

static bool innodb_bulk_write(void *own, const char *rows, size_t length, struct lg_error *error)
{
    struct connection *connection = own;
    struct loader *loader = &connection->loader;

    loader->rows = rows;
    loader->length = length;
    resume(loader);
    return loader->running ? true : fail_load(connection, error);
}

/* LOAD DATA LOCAL cuts and converts what does not fit and only warns: that is an error here. */
static int64_t innodb_bulk_end(void *own, struct lg_error *error)
{
    struct connection *connection = own;
    struct loader *loader = &connection->loader;
    MYSQL *server = &connection->server;
    MYSQL_RES *warnings = NULL;
    MYSQL_ROW row;
    int64_t rows;

    loader->ended = true;
    resume(loader);
    if (loader->failed)
        return fail_load(connection, error), -1;
    rows = (int64_t)mysql_affected_rows(server);
    if (mysql_warning_count(server) == 0)
        return rows;
    if (mysql_query(server, "SHOW WARNINGS LIMIT 1") == 0)
        warnings = mysql_store_result(server);
    row = warnings ? mysql_fetch_row(warnings) : NULL;
    lg_fail(error, "the rows do not fit the table: %s", row ? row[2] : "a warning");
    forget(&warnings);
    return -1;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .name = "innodb",
    .open = innodb_open,
    .close = innodb_close,
    .connect = innodb_connect,
    .disconnect = innodb_disconnect,
    .descriptor = innodb_descriptor,
    .submit = innodb_submit,
    .advance = innodb_advance,
    .result = innodb_result,
    .bulk_begin = innodb_bulk_begin,
    .bulk_write = innodb_bulk_write,
    .bulk_end = innodb_bulk_end,
};

/*
 * SQL Server through FreeTDS's DB-Library.
 *
 *   "backend": "sqlserver",
 *   "connection": {"host": "…", "port": …, "user": "…", "password": "…", "database": "…",
 *                  "ca": "a file, or empty: no encryption", "isolation": "…"}
 *
 * A statement is `exec procedure :a, :b …`: one remote procedure call whose values go by position,
 * an array as the text [1,2,3]. The request is sent at once; nothing is read before the descriptor is
 * ready. The server sends a procedure's rows when it ends, or a packet of them is full, so that the
 * library's blocking reads find what they read.
 *
 * The procedures set XACT_ABORT: whatever fails has undone the transaction when it is reported.
 */
#include "workload.h"

#include <sybfront.h>
/* After sybfront.h. */
#include <sybdb.h>

enum {
    CONNECT_TIMEOUT_S = 15,
    DEADLOCK = 1205,
    LOCK_TIMEOUT = 1222,
    UPDATE_CONFLICT = 3960, /* of snapshot isolation */
    LEAST_ERROR_SEVERITY = 11,
    NUMBER_BYTES = 24,
    CELL_BYTES = 64, /* a number or a time as text */
    /* It takes texts over this length in another form. */
    LONGEST_TEXT = 8000,
};

/* What DB-Library's sessions lack of the settings that other clients have. */
static const char SESSION[] = "set ansi_defaults on; set implicit_transactions off; "
                              "set cursor_close_on_commit off; set arithabort on; "
                              "set concat_null_yields_null on;";

/* The texts belong to the spec, which outlives the client. */
struct lg_client {
    const char *user, *password, *database, *isolation;
    int file; /* the library's configuration */
    char path[64];
};

struct lg_session {
    DBPROCESS *process;
    const struct lg_reader *reader;
    struct lg_result *result;
    struct tb_text numbers; /* arguments as text, until they are sent */
    struct tb_text first;   /* the first row */
    struct tb_text row;     /* of a bulk load */
    size_t columns, ordinal[LG_MAX_COLUMNS]; /* of a bulk load */
};

/* The first error of the running call. The library reports it from within the call. */
static _Thread_local struct {
    long number;
    char text[512];
} failure;

static int on_message(DBPROCESS *process, DBINT number, int state, int severity, char *text,
                      char *server, char *procedure, int line)
{
    if (severity >= LEAST_ERROR_SEVERITY && failure.text[0] == '\0') {
        failure.number = number;
        lg_first_line(failure.text, sizeof failure.text, text, strlen(text));
    }
    return 0;
}

static int on_error(DBPROCESS *process, int severity, int number, int os_number, char *text,
                    char *os_text)
{
    /* "General SQL Server error: check messages" comes after the message. */
    if (failure.text[0] == '\0' && number != SYBESMSG)
        lg_first_line(failure.text, sizeof failure.text, text, strlen(text));
    return INT_CANCEL;
}

static void begin(void)
{
    failure.number = 0;
    failure.text[0] = '\0';
}

static bool fail(const char *action, struct tb_error *error)
{
    return tb_fail(error, "%s: %s (error %ld)", action,
                   failure.text[0] ? failure.text : "no reason given", failure.number);
}

/* ---- connection ---------------------------------------------------------------- */

static const char *text_of(const json_t *connection, const char *name)
{
    return json_string_value(json_object_get(connection, name));
}

static void sqlserver_close(struct lg_client *client)
{
    if (client->file >= 0)
        close(client->file);
    free(client);
}

/* Host, port and encryption are the library's configuration: it has no other way to the latter. */
static struct lg_client *sqlserver_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *client = tb_allocate(1, sizeof *client);
    const char *host = text_of(connection, "host"), *ca = text_of(connection, "ca");
    char configuration[1024];
    int length;

    *client = (struct lg_client){
        .user = text_of(connection, "user"),
        .password = text_of(connection, "password"),
        .database = text_of(connection, "database"),
        .isolation = text_of(connection, "isolation"),
        .file = -1,
    };
    if (!host || !ca || !client->user || !client->password || !client->database ||
        strpbrk(host, "\r\n") || strpbrk(ca, "\r\n")) {
        tb_fail(error, "connection: has host, user, password, database, and ca");
        sqlserver_close(client);
        return NULL;
    }
    length = snprintf(configuration, sizeof configuration,
                      "[global]\ntds version = 7.4\nclient charset = UTF-8\n"
                      "[server]\nhost = %s\nport = %lld\nencryption = %s\n%s%s\n%s", host,
                      (long long)json_integer_value(json_object_get(connection, "port")),
                      *ca ? "require" : "off", *ca ? "ca file = " : "", ca,
                      *ca ? "check certificate hostname = yes\n" : "");
    if ((size_t)length >= sizeof configuration || dbinit() == FAIL) {
        tb_fail(error, "connection: host and ca are too long, or DB-Library does not start");
    } else {
        client->file = lg_text_file(configuration, client->path, sizeof client->path, error);
        if (client->file >= 0) {
            dbmsghandle(on_message);
            dberrhandle(on_error);
            dbsetlogintime(CONNECT_TIMEOUT_S);
            dbsetifile(client->path);
            return client;
        }
    }
    sqlserver_close(client);
    return NULL;
}

static void sqlserver_disconnect(struct lg_session *session)
{
    if (session->process)
        dbclose(session->process);
    free(session->numbers.bytes);
    free(session->first.bytes);
    free(session->row.bytes);
    free(session);
}

static DBPROCESS *log_in(const struct lg_client *client)
{
    LOGINREC *login = dblogin();
    DBPROCESS *process;

    DBSETLUSER(login, client->user);
    DBSETLPWD(login, client->password);
    DBSETLAPP(login, "harness-loadgen");
    DBSETLDBNAME(login, client->database);
    BCP_SETL(login, TRUE);
    process = dbopen(login, "server");
    dbloginfree(login);
    return process;
}

/* Runs a batch to its end, without its rows. */
static bool run(DBPROCESS *process, const char *batch)
{
    RETCODE found;

    if (dbcmd(process, batch) == FAIL || dbsqlexec(process) == FAIL)
        return false;
    while ((found = dbresults(process)) == SUCCEED)
        if (dbcanquery(process) == FAIL)
            return false;
    return found == NO_MORE_RESULTS;
}

static bool set_session(DBPROCESS *process, const struct lg_client *client)
{
    char isolation[80];

    snprintf(isolation, sizeof isolation, "set transaction isolation level %s",
             client->isolation ? client->isolation : "read committed");
    return run(process, SESSION) && run(process, isolation);
}

static struct lg_session *sqlserver_connect(struct lg_client *client,
                                            const struct lg_statement *statements, size_t count,
                                            struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);

    begin();
    session->result = result;
    session->process = log_in(client);
    if (session->process && set_session(session->process, client))
        return session;
    fail("connect", error);
    sqlserver_disconnect(session);
    return NULL;
}

static int sqlserver_descriptor(struct lg_session *session)
{
    return DBIORDESC(session->process);
}

/* ---- execution ----------------------------------------------------------------- */

static enum lg_state ended(struct lg_session *session, bool good)
{
    struct lg_result *result = session->result;

    if (good && failure.text[0] == '\0')
        return LG_READY;
    if (dbdead(session->process))
        return lg_result_lost(result, failure.text);
    result->outcome = failure.number == DEADLOCK || failure.number == LOCK_TIMEOUT ||
                              failure.number == UPDATE_CONFLICT
                          ? LG_RETRY
                          : LG_REFUSED;
    snprintf(result->code, sizeof result->code, "%ld", failure.number);
    snprintf(result->message, sizeof result->message, "%s", failure.text);
    if (dbcancel(session->process) == FAIL)
        return lg_result_lost(result, result->message);
    return LG_READY;
}

/* Adds an argument's text; DB-Library reads it when the call is sent. */
static size_t add_argument(struct tb_text *text, const struct lg_value *value, enum lg_kind kind)
{
    size_t before = text->length;
    long long cents = value->integer < 0 ? -(long long)value->integer : (long long)value->integer;

    if (kind == LG_TEXT)
        tb_text_add(text, value->text, value->length);
    else if (kind == LG_CENTS)
        tb_text_printf(text, "%s%lld.%02lld", value->integer < 0 ? "-" : "", cents / 100,
                       cents % 100);
    else
        for (size_t i = 0; i < value->count; i++)
            tb_text_printf(text, "%c%d", i > 0 ? ',' : '[', (int)value->integers[i]);
    if (kind == LG_INT_ARRAY)
        tb_text_add(text, value->count ? "]" : "[]", value->count ? 1 : 2);
    return text->length - before;
}

/* A text without bytes would be NULL to the library; no workload has one. */
static bool send(struct lg_session *session, const struct lg_statement *statement,
                 const struct lg_value *values)
{
    DBPROCESS *process = session->process;
    DBINT integers[LG_MAX_PARAMETERS];
    size_t at[LG_MAX_PARAMETERS], length[LG_MAX_PARAMETERS];
    char procedure[64];

    if (sscanf(statement->sql, "exec %63s", procedure) != 1 ||
        dbrpcinit(process, procedure, 0) == FAIL)
        return false;
    session->numbers.length = 0;
    for (size_t i = 0; i < statement->parameter_count; i++) {
        const struct lg_value *value = &values[statement->parameters[i].value];

        at[i] = session->numbers.length;
        length[i] = 0;
        if (!value->null && statement->parameters[i].kind == LG_INT)
            integers[i] = (DBINT)value->integer;
        else if (!value->null)
            length[i] = add_argument(&session->numbers, value, statement->parameters[i].kind);
        if (length[i] > LONGEST_TEXT)
            return false;
    }
    for (size_t i = 0; i < statement->parameter_count; i++) {
        bool null = values[statement->parameters[i].value].null;
        bool integer = statement->parameters[i].kind == LG_INT;
        BYTE *bytes = integer ? (BYTE *)&integers[i] : (BYTE *)session->numbers.bytes + at[i];

        if (dbrpcparam(process, NULL, 0, integer ? SYBINT4 : SYBVARCHAR, -1,
                       null ? 0 : integer ? -1 : (DBINT)length[i], null ? NULL : bytes) == FAIL)
            return false;
    }
    return dbrpcsend(process) == SUCCEED;
}

static enum lg_state sqlserver_submit(struct lg_session *session,
                                      const struct lg_statement *statement,
                                      const struct lg_value *values, const struct lg_reader *reader)
{
    begin();
    lg_result_begin(session->result);
    session->reader = reader;
    return send(session, statement, values) ? LG_WANT_READ : ended(session, false);
}

/* Writes a row's values to `text`, and the cells that lie there to `cells`. */
static bool read_row(DBPROCESS *process, size_t columns, struct tb_text *text,
                     struct lg_cell *cells)
{
    size_t begins[LG_MAX_COLUMNS];

    text->length = 0;
    for (size_t i = 0; i < columns; i++) {
        int column = (int)i + 1, type = dbcoltype(process, column);
        BYTE *data = dbdata(process, column);
        DBINT length = dbdatlen(process, column);
        char number[CELL_BYTES];

        begins[i] = text->length;
        if (data && type != SYBCHAR && type != SYBVARCHAR) {
            length = dbconvert(process, type, data, length, SYBCHAR, (BYTE *)number, sizeof number);
            data = (BYTE *)number;
            if (length < 0)
                return false;
            while (length > 0 && number[length - 1] == ' ') /* filled up with blanks */
                length--;
        }
        cells[i] = (struct lg_cell){data ? "" : NULL, data ? (size_t)length : 0};
        if (data)
            tb_text_add(text, (const char *)data, (size_t)length);
    }
    for (size_t i = 0; i < columns; i++)
        if (cells[i].text && cells[i].length)
            cells[i].text = text->bytes + begins[i];
    return true;
}

static bool read_rows(struct lg_session *session, struct tb_text *other)
{
    struct lg_result *result = session->result;
    struct lg_cell cells[LG_MAX_COLUMNS];
    int found = dbnumcols(session->process);
    size_t columns = found > LG_MAX_COLUMNS ? LG_MAX_COLUMNS : (size_t)found;
    STATUS row;

    while ((row = dbnextrow(session->process)) == REG_ROW) {
        bool first = result->rows++ == 0;

        if (first)
            result->columns = columns;
        else if (!session->reader)
            continue;
        if (!read_row(session->process, columns, first ? &session->first : other,
                      first ? result->first : cells))
            return false;
        if (session->reader)
            session->reader->row(session->reader->context, first ? result->first : cells,
                                    columns);
    }
    return row == NO_MORE_ROWS;
}

static enum lg_state sqlserver_advance(struct lg_session *session)
{
    bool good = dbsqlok(session->process) == SUCCEED;
    RETCODE found = FAIL;

    while (good && (found = dbresults(session->process)) == SUCCEED)
        good = read_rows(session, &session->row);
    return ended(session, good && found == NO_MORE_RESULTS);
}

/* ---- bulk load ----------------------------------------------------------------- */

/* The place of each of `names` among the table's columns. */
static bool find_columns(struct lg_session *session, const char *table, const char *names)
{
    DBPROCESS *process = session->process;
    char query[256];

    snprintf(query, sizeof query, "select top 0 * from %s", table);
    if (dbcmd(process, query) == FAIL || dbsqlexec(process) == FAIL ||
        dbresults(process) != SUCCEED)
        return false;
    session->columns = 0;
    for (const char *at = names; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", "), ordinal = 0;

        for (int i = 1; i <= dbnumcols(process); i++)
            if (strlen(dbcolname(process, i)) == length &&
                strncmp(dbcolname(process, i), at, length) == 0)
                ordinal = (size_t)i;
        if (ordinal == 0 || session->columns == LG_MAX_COLUMNS)
            return false;
        session->ordinal[session->columns++] = ordinal;
        at += length;
    }
    return (int)session->columns == dbnumcols(process) && dbcancel(process) == SUCCEED;
}

static bool sqlserver_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                                 struct tb_error *error)
{
    static char hint[] = "TABLOCK";
    DBPROCESS *process = session->process;
    bool good;

    begin();
    good = find_columns(session, table, columns) &&
           bcp_init(process, table, NULL, NULL, DB_IN) == SUCCEED &&
           bcp_options(process, BCPHINTS, (BYTE *)hint, sizeof hint - 1) == SUCCEED;
    for (size_t i = 0; good && i < session->columns; i++)
        good = bcp_bind(process, (BYTE *)hint, 0, 1, NULL, 0, SYBCHAR,
                        (int)session->ordinal[i]) == SUCCEED;
    return good || fail("bulk insert", error);
}

static bool send_row(struct lg_session *session, const char *row, size_t length)
{
    DBPROCESS *process = session->process;
    struct lg_cell cell;
    char *at;

    session->row.length = 0;
    tb_text_add(&session->row, row, length);
    at = session->row.bytes;
    for (size_t i = 0; i < session->columns; i++) {
        int column = (int)session->ordinal[i];

        if (!lg_column_next(&at, session->row.bytes + length, &cell) ||
            bcp_colptr(process, (BYTE *)(cell.text ? cell.text : ""), column) == FAIL ||
            bcp_collen(process, (DBINT)cell.length, column) == FAIL)
            return false;
    }
    return bcp_sendrow(process) == SUCCEED;
}

static bool sqlserver_bulk_write(struct lg_session *session, const char *rows, size_t length,
                                 struct tb_error *error)
{
    const char *end = rows + length;

    begin();
    while (rows < end) {
        const char *line = memchr(rows, '\n', (size_t)(end - rows));

        if (line == NULL)
            line = end;
        if (!send_row(session, rows, (size_t)(line - rows)))
            return fail("bulk insert", error);
        rows = line + 1;
    }
    return true;
}

static int64_t sqlserver_bulk_end(struct lg_session *session, struct tb_error *error)
{
    DBINT rows;

    begin();
    rows = bcp_done(session->process);
    if (rows < 0 || failure.text[0])
        return fail("bulk insert", error), -1;
    return rows;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = sqlserver_open,
    .close = sqlserver_close,
    .connect = sqlserver_connect,
    .disconnect = sqlserver_disconnect,
    .descriptor = sqlserver_descriptor,
    .submit = sqlserver_submit,
    .advance = sqlserver_advance,
    .bulk_begin = sqlserver_bulk_begin,
    .bulk_write = sqlserver_bulk_write,
    .bulk_end = sqlserver_bulk_end,
};

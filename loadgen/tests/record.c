/*
 * A back end for tests that writes down its requests.
 *
 *   {"backend": "record", "connection": {"directory": "/tmp/requests"}, …}
 *
 * Task "load": each bulk load is a file, <table>.<n>.rows. Task "run": each connection is
 * a file, <n>.calls, a line a call: the statement's name and the values of its :names,
 * apart by tabs. Its answers are what TPC-C's own procedures might answer. Of the table
 * named as connection.loses, one row of each bulk load is lost without a word.
 */
#include "../backend.h"

struct lg_client {
    const char *directory, *loses;
    atomic_uint files;
    atomic_int orders;
};

struct lg_session {
    struct lg_client *recorder;
    FILE *calls, *rows;
    int64_t row_count;
    struct lg_result *result;
    char text[2][64];
};

static struct lg_client *record_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *recorder = calloc(1, sizeof *recorder);

    recorder->directory = json_string_value(json_object_get(connection, "directory"));
    recorder->loses = json_string_value(json_object_get(connection, "loses"));
    atomic_init(&recorder->orders, 3000);
    if (!recorder->directory) {
        tb_fail(error, "connection.directory: is required");
        free(recorder);
        return NULL;
    }
    return recorder;
}

static void record_close(struct lg_client *recorder)
{
    free(recorder);
}

static FILE *new_file(struct lg_client *recorder, const char *table, const char *kind,
                      struct tb_error *error)
{
    char path[4096];
    unsigned number = atomic_fetch_add(&recorder->files, 1);

    snprintf(path, sizeof path, "%s/%s%s%u.%s", recorder->directory, table, *table ? "." : "",
             number, kind);

    FILE *file = fopen(path, "w");

    if (!file)
        tb_fail(error, "%s cannot be written", path);
    return file;
}

static struct lg_session *record_connect(struct lg_client *client,
                                         const struct lg_statement *statements, size_t count,
                                         struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = calloc(1, sizeof *session);

    session->recorder = client;
    session->result = result;
    if (count > 0) {
        session->calls = new_file(client, "", "calls", error);
        if (!session->calls) {
            free(session);
            return NULL;
        }
    }
    return session;
}

static void record_disconnect(struct lg_session *session)
{
    if (session->calls)
        fclose(session->calls);
    if (session->rows)
        fclose(session->rows);
    free(session);
}

static void write_value(FILE *file, const struct lg_value *value)
{
    if (value->null) {
        fputs("\t\\N", file);
    } else if (value->kind == LG_TEXT) {
        fprintf(file, "\t%.*s", (int)value->length, value->text);
    } else if (value->kind == LG_INT_ARRAY) {
        for (size_t i = 0; i < value->count; i++)
            fprintf(file, "%c%d", i ? ',' : '\t', value->integers[i]);
    } else {
        fprintf(file, "\t%lld", (long long)value->integer);
    }
}

static const struct lg_value *value_of(const struct lg_statement *statement,
                                       const struct lg_value *values, const char *name)
{
    for (size_t i = 0; i < statement->parameter_count; i++) {
        size_t length = statement->parameters[i].end - statement->parameters[i].begin;

        if (length == strlen(name) &&
            memcmp(statement->sql + statement->parameters[i].begin, name, length) == 0)
            return &values[statement->parameters[i].value];
    }
    fprintf(stderr, "record: %s has no %s\n", statement->name, name);
    abort();
}

static void answer(struct lg_session *session, size_t column, const char *text)
{
    session->result->first[column].text = text;
    session->result->first[column].length = text ? strlen(text) : 0;
}

static void answer_number(struct lg_session *session, size_t column, int64_t number)
{
    snprintf(session->text[column], sizeof session->text[column], "%lld", (long long)number);
    answer(session, column, session->text[column]);
}

static void answer_customer(struct lg_session *session, const struct lg_statement *statement,
                            const struct lg_value *values)
{
    const struct lg_value *requested = value_of(statement, values, ":c_id");

    answer_number(session, 0, requested->null ? 1 : requested->integer);
    answer_number(session, 1, 1);
}

static enum lg_state record_submit(struct lg_session *session, const struct lg_statement *statement,
                                   const struct lg_value *values,
                                   const struct lg_reader *reader)
{
    fputs(statement->name, session->calls);
    for (size_t i = 0; i < statement->parameter_count; i++)
        write_value(session->calls, &values[statement->parameters[i].value]);
    fputc('\n', session->calls);

    *session->result = (struct lg_result){.outcome = LG_OK, .rows = 1, .columns = 2};
    if (strcmp(statement->name, "new_order") == 0) {
        if (value_of(statement, values, ":rollback")->integer == 0)
            answer_number(session, 0, atomic_fetch_add(&session->recorder->orders, 1) + 1);
    } else if (strcmp(statement->name, "delivery") == 0) {
        answer(session, 0, "9");
        answer(session, 1, "1,2,3,4,5,6,7,8,9,0");
    } else if (strcmp(statement->name, "stock_level") == 0) {
        answer(session, 0, "0");
    } else {
        answer_customer(session, statement, values);
    }
    return LG_READY;
}

static bool record_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                              struct tb_error *error)
{
    struct lg_client *recorder = session->recorder;

    session->rows = new_file(recorder, table, "rows", error);
    session->row_count = recorder->loses && strcmp(table, recorder->loses) == 0 ? -1 : 0;
    if (session->rows)
        fprintf(session->rows, "%s\n", columns);
    return session->rows != NULL;
}

static bool record_bulk_write(struct lg_session *session, const char *rows, size_t length,
                              struct tb_error *error)
{
    for (size_t i = 0; i < length; i++)
        session->row_count += rows[i] == '\n';
    if (length == 0 || rows[length - 1] != '\n')
        return tb_fail(error, "rows do not end with a row");
    if (fwrite(rows, 1, length, session->rows) != length)
        return tb_fail(error, "rows cannot be written");
    return true;
}

static int64_t record_bulk_end(struct lg_session *session, struct tb_error *error)
{
    bool closed = fclose(session->rows) == 0;

    session->rows = NULL;
    if (!closed) {
        tb_fail(error, "rows cannot be written");
        return -1;
    }
    return session->row_count;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .open = record_open,
    .close = record_close,
    .connect = record_connect,
    .disconnect = record_disconnect,
    .submit = record_submit,
    .bulk_begin = record_bulk_begin,
    .bulk_write = record_bulk_write,
    .bulk_end = record_bulk_end,
};

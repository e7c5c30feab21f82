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

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recorder {
    const char *directory, *loses;
    atomic_uint files;
    atomic_int orders;
};

struct record {
    struct recorder *recorder;
    FILE *calls, *rows;
    int64_t row_count;
    struct lg_result result;
    char text[2][64];
};

static void *record_open(const json_t *connection, struct tb_error *error)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);

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

static FILE *new_file(struct recorder *recorder, const char *table, const char *kind,
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

static void *record_connect(void *client, const struct lg_statement *statements, size_t count,
                            struct tb_error *error)
{
    struct record *record = calloc(1, sizeof *record);

    (void)statements;
    record->recorder = client;
    if (count > 0) {
        record->calls = new_file(client, "", "calls", error);
        if (!record->calls) {
            free(record);
            return NULL;
        }
    }
    return record;
}

static void record_disconnect(void *connection)
{
    struct record *record = connection;

    if (record->calls)
        fclose(record->calls);
    if (record->rows)
        fclose(record->rows);
    free(record);
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

static void answer(struct record *record, size_t column, const char *text)
{
    record->result.first[column].text = text;
    record->result.first[column].length = text ? strlen(text) : 0;
}

static void answer_number(struct record *record, size_t column, int64_t number)
{
    snprintf(record->text[column], sizeof record->text[column], "%lld", (long long)number);
    answer(record, column, record->text[column]);
}

static void answer_customer(struct record *record, const struct lg_statement *statement,
                            const struct lg_value *values)
{
    const struct lg_value *requested = value_of(statement, values, ":c_id");

    answer_number(record, 0, requested->null ? 1 : requested->integer);
    answer_number(record, 1, 1);
}

static enum lg_state record_submit(void *connection, const struct lg_statement *statement,
                                   const struct lg_value *values,
                                   const struct lg_reader *reader)
{
    struct record *record = connection;

    (void)reader;
    fputs(statement->name, record->calls);
    for (size_t i = 0; i < statement->parameter_count; i++)
        write_value(record->calls, &values[statement->parameters[i].value]);
    fputc('\n', record->calls);

    record->result = (struct lg_result){.outcome = LG_OK, .rows = 1, .columns = 2};
    if (strcmp(statement->name, "new_order") == 0) {
        if (value_of(statement, values, ":rollback")->integer == 0)
            answer_number(record, 0, atomic_fetch_add(&record->recorder->orders, 1) + 1);
    } else if (strcmp(statement->name, "delivery") == 0) {
        answer(record, 0, "9");
        answer(record, 1, "1,2,3,4,5,6,7,8,9,0");
    } else if (strcmp(statement->name, "stock_level") == 0) {
        answer(record, 0, "0");
    } else {
        answer_customer(record, statement, values);
    }
    return LG_READY;
}

static const struct lg_result *record_result(void *connection)
{
    return &((struct record *)connection)->result;
}

static bool record_bulk_begin(void *connection, const char *table, const char *columns,
                              struct tb_error *error)
{
    struct record *record = connection;
    struct recorder *recorder = record->recorder;

    record->rows = new_file(recorder, table, "rows", error);
    record->row_count = recorder->loses && strcmp(table, recorder->loses) == 0 ? -1 : 0;
    if (record->rows)
        fprintf(record->rows, "%s\n", columns);
    return record->rows != NULL;
}

static bool record_bulk_write(void *connection, const char *rows, size_t length,
                              struct tb_error *error)
{
    struct record *record = connection;

    for (size_t i = 0; i < length; i++)
        record->row_count += rows[i] == '\n';
    if (length == 0 || rows[length - 1] != '\n')
        return tb_fail(error, "rows do not end with a row");
    if (fwrite(rows, 1, length, record->rows) != length)
        return tb_fail(error, "rows cannot be written");
    return true;
}

static int64_t record_bulk_end(void *connection, struct tb_error *error)
{
    struct record *record = connection;
    bool closed = fclose(record->rows) == 0;

    record->rows = NULL;
    if (!closed) {
        tb_fail(error, "rows cannot be written");
        return -1;
    }
    return record->row_count;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .name = "record",
    .open = record_open,
    .close = free,
    .connect = record_connect,
    .disconnect = record_disconnect,
    .submit = record_submit,
    .result = record_result,
    .bulk_begin = record_bulk_begin,
    .bulk_write = record_bulk_write,
    .bulk_end = record_bulk_end,
};

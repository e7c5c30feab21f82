/* Rows of a bulk load: see loadgen_bulk.h. */
#include "loadgen_bulk.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES = 1 << 20 };

bool volt_bulk_begin(struct volt_bulk *bulk, const char *table, const char *names,
                     struct tb_error *error)
{
    const json_t *columns = json_object_get(bulk->tables, table);
    const char *at = names;

    bulk->table = table;
    bulk->count = json_array_size(columns);
    bulk->partitioning = -1;
    bulk->waiting = bulk->stored = 0;
    bulk->rows.length = 0;
    for (size_t i = 0; i < bulk->count && i < LG_MAX_COLUMNS; i++) {
        const json_t *column = json_array_get(columns, i);
        const char *name = json_string_value(json_array_get(column, 0));
        size_t length = strcspn(at, ", ");

        if (name == NULL || strlen(name) != length || strncmp(name, at, length) != 0)
            break;
        bulk->columns[i].name = name;
        bulk->columns[i].type = (enum volt_type)json_integer_value(json_array_get(column, 1));
        if (json_is_true(json_array_get(column, 2)))
            bulk->partitioning = (int)i;
        at += length;
        at += strspn(at, ", ");
        if (i + 1 == bulk->count && *at == '\0')
            return true;
    }
    return tb_fail(error, "VoltDB: load %s: its columns must be %s", table, names);
}

/* Column `index` of a row of text, up to the end of the row; NULL where it has fewer. */
static const char *find_column(const char *row, size_t length, int index)
{
    const char *end = row + length;

    while (index-- > 0) {
        row = memchr(row, '\t', (size_t)(end - row));
        if (row == NULL)
            return NULL;
        row++;
    }
    return row;
}

static int64_t partition_of(const struct volt_bulk *bulk, const char *row, size_t length)
{
    const char *at = NULL;

    if (bulk->partitioning >= 0)
        at = find_column(row, length, bulk->partitioning);
    return at ? strtoll(at, NULL, 10) : 0; /* a row ends with a newline: the number does */
}

bool volt_bulk_is_full(const struct volt_bulk *bulk, const char *row, size_t length)
{
    return bulk->rows.length > BATCH_BYTES ||
           (bulk->waiting > 0 && partition_of(bulk, row, length) != bulk->partition);
}

bool volt_bulk_add(struct volt_bulk *bulk, const char *row, size_t length, struct tb_error *error)
{
    char *at, *end;
    size_t begin;

    bulk->partition = partition_of(bulk, row, length);
    bulk->text.length = 0;
    tb_text_add(&bulk->text, row, length);
    at = bulk->text.bytes;
    end = at + length;
    volt_put(&bulk->rows, 0, VOLT_LENGTH_BYTES);
    begin = bulk->rows.length;
    for (size_t i = 0; i < bulk->count; i++) {
        char *tab = i + 1 < bulk->count ? memchr(at, '\t', (size_t)(end - at)) : end;

        if (tab == NULL)
            return tb_fail(error, "VoltDB: load %s: a row has %zu columns", bulk->table, i + 1);
        if (!volt_put_column(&bulk->rows, bulk->columns[i].type, at, (size_t)(tab - at)))
            return tb_fail(error, "VoltDB: load %s: %s: %.*s does not fit its type", bulk->table,
                           bulk->columns[i].name, tab - at < 40 ? (int)(tab - at) : 40, at);
        at = tab + 1;
    }
    volt_set_length(&bulk->rows, begin);
    bulk->waiting++;
    return true;
}

static void put_table(const struct volt_bulk *bulk, struct tb_text *out)
{
    size_t begin, head;

    volt_put(out, VOLT_TABLE, 1);
    volt_put(out, 0, VOLT_LENGTH_BYTES);
    begin = out->length;
    volt_put(out, 0, VOLT_LENGTH_BYTES);
    head = out->length;
    volt_put(out, 0, 1); /* the status */
    volt_put(out, (int64_t)bulk->count, 2);
    for (size_t i = 0; i < bulk->count; i++)
        volt_put(out, bulk->columns[i].type, 1);
    for (size_t i = 0; i < bulk->count; i++)
        volt_put_string(out, bulk->columns[i].name, strlen(bulk->columns[i].name));
    volt_set_length(out, head);
    volt_put(out, bulk->waiting, 4);
    tb_text_add(out, bulk->rows.bytes, bulk->rows.length);
    volt_set_length(out, begin);
}

void volt_bulk_write_call(const struct volt_bulk *bulk, struct tb_text *out, int64_t handle)
{
    static const char one[] = "@LoadSinglepartitionTable", all[] = "@LoadMultipartitionTable";

    if (bulk->partitioning >= 0) {
        volt_begin_call(out, one, strlen(one), handle, 4);
        volt_put(out, VOLT_VARBINARY, 1); /* the partitioning value, its lowest byte first */
        volt_put(out, 8, 4);
        for (int i = 0; i < 8; i++)
            volt_put(out, bulk->partition >> (8 * i), 1);
    } else {
        volt_begin_call(out, all, strlen(all), handle, 3);
    }
    volt_put(out, VOLT_STRING, 1);
    volt_put_string(out, bulk->table, strlen(bulk->table));
    volt_put(out, VOLT_TINYINT, 1);
    volt_put(out, 0, 1); /* insert: replace nothing */
    put_table(bulk, out);
    volt_end_message(out);
}

void volt_bulk_sent(struct volt_bulk *bulk)
{
    bulk->stored += bulk->waiting;
    bulk->waiting = 0;
    bulk->rows.length = 0;
}

void volt_bulk_free(struct volt_bulk *bulk)
{
    free(bulk->rows.bytes);
    free(bulk->text.bytes);
}

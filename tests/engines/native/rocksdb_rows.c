/*
 * Reads records again and again through the back end for RocksDB alone, to see what they are and
 * which cache has answered:
 *
 *   rocksdb_rows '{"connection": {…}, "keys": 1000}'
 *
 * The records lie in one table; each is read, and read again; every second one is changed,
 * and each is read; the changes are flushed into a table of their own, and each is read, and read
 * again. Prints for each of these five passes {"wrong": records that are not what was last
 * written, "hits": …, "misses": …}, the last two RocksDB's tickers of its row cache.
 */
#include "backend.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct lg_backend loadgen_backend;
static const struct lg_backend *const backend = &loadgen_backend;

enum { GET, PUT, STATEMENTS };

static void *client, *session;
static struct tb_error error;
static const struct lg_statement statements[STATEMENTS] = {
    [GET] = {.name = "get", .sql = "get :key", .parameter_count = 1},
    [PUT] = {.name = "put", .sql = "put :key :record", .parameter_count = 2,
             .parameters = {[1] = {.value = 1}}},
};

struct text {
    char bytes[32];
    size_t length;
};

static void die(const char *words)
{
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static struct text text_of(const char *format, int number)
{
    struct text text;
    text.length = (size_t)snprintf(text.bytes, sizeof text.bytes, format, number);
    return text;
}

static struct text record_of(int key, bool changed)
{
    return text_of(changed ? "changed %d" : "loaded %d", key);
}

static void keep(void *context, const struct lg_cell *cells, size_t columns)
{
    struct text *kept = context;
    (void)columns;
    kept->length = cells[1].length < sizeof kept->bytes ? cells[1].length : 0;
    memcpy(kept->bytes, cells[1].text, kept->length);
}

static void ask(int statement, int key, const struct text *record, struct text *found)
{
    struct text name = text_of("key%06d", key);
    const struct lg_value values[2] = {
        {.kind = LG_TEXT, .text = name.bytes, .length = name.length},
        {.kind = LG_TEXT, .text = record ? record->bytes : "",
         .length = record ? record->length : 0},
    };
    const struct lg_reader reader = {keep, found};
    backend->submit(session, &statements[statement], values, found ? &reader : NULL);
    const struct lg_result *result = backend->result(session);
    if (result->outcome != LG_OK)
        die(result->message);
}

static json_int_t ticker(const char *name)
{
    json_t *counters = backend->counters(client, &error);
    json_t *count = json_object_get(counters, name);
    if (!count)
        die(counters ? "no such ticker" : error.text);
    return json_integer_value(count);
}

static void read_all(json_t *passes, int keys, bool changed)
{
    json_int_t hits = ticker("rocksdb_row_cache_hit_count");
    json_int_t misses = ticker("rocksdb_row_cache_miss_count");
    int wrong = 0;
    for (int key = 0; key < keys; key++) {
        struct text wanted = record_of(key, changed && key % 2 == 0), found = {.length = 0};
        ask(GET, key, NULL, &found);
        wrong += found.length != wanted.length ||
                 memcmp(found.bytes, wanted.bytes, wanted.length) != 0;
    }
    json_array_append_new(passes, json_pack(
        "{s:i, s:I, s:I}", "wrong", wrong,
        "hits", ticker("rocksdb_row_cache_hit_count") - hits,
        "misses", ticker("rocksdb_row_cache_miss_count") - misses));
}

static void load(int keys)
{
    if (!backend->bulk_begin(session, "", "", &error))
        die(error.text);
    for (int key = 0; key < keys; key++) {
        struct text name = text_of("key%06d", key), record = record_of(key, false);
        if (!backend->bulk_put(session, name.bytes, name.length, record.bytes, record.length,
                               &error))
            die(error.text);
    }
    if (backend->bulk_end(session, &error) != keys || !backend->settle(client, &error))
        die(error.text);
}

int main(int count, char **arguments)
{
    json_t *request = count == 2 ? json_loads(arguments[1], 0, NULL) : NULL;
    if (!request)
        die("wanted: one argument, JSON");
    int keys = (int)json_integer_value(json_object_get(request, "keys"));
    client = backend->open(json_object_get(request, "connection"), &error);
    session = client ? backend->connect(client, statements, STATEMENTS, &error) : NULL;
    if (!session)
        die(error.text);
    json_t *passes = json_array();
    load(keys);
    read_all(passes, keys, false);
    read_all(passes, keys, false);
    for (int key = 0; key < keys; key += 2) {
        struct text record = record_of(key, true);
        ask(PUT, key, &record, NULL);
    }
    read_all(passes, keys, true);
    if (!backend->settle(client, &error))
        die(error.text);
    read_all(passes, keys, true);
    read_all(passes, keys, true);
    backend->disconnect(session);
    backend->close(client);
    json_dumpf(passes, stdout, JSON_SORT_KEYS);
    return 0;
}

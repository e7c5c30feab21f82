/*
 * How much of the values is read: the back end for RocksDB over a library whose values are pages
 * that nothing has touched yet. Prints touched and all pages of one call without a reader:
 *
 *   rocksdb_touched "get :key"        rocksdb_touched "scan :key :length"
 */
#include "../../../engines/rocksdb/loadgen_library.h"
#include "workload.h"

#include <sys/mman.h>

extern const struct lg_backend loadgen_backend;

enum { PAGES = 8, ROWS = 3 };

static char *values[ROWS];
static int row;

static char *fresh_pages(void)
{
    char *pages = mmap(NULL, (size_t)PAGES * (size_t)getpagesize(), PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        exit(1);
    return values[row] = pages;
}

static const char *value_of(size_t *length)
{
    *length = (size_t)PAGES * (size_t)getpagesize();
    return fresh_pages();
}

/* The library, as far as it is called. */
static rocksdb_pinnableslice_t *get_pinned(rocksdb_t *db, const rocksdb_readoptions_t *options,
                                           const char *key, size_t length, char **words)
{
    return (rocksdb_pinnableslice_t *)&row;
}

static const char *slice_value(const rocksdb_pinnableslice_t *slice, size_t *length)
{
    return value_of(length);
}

static void slice_destroy(rocksdb_pinnableslice_t *slice)
{
    row++;
}

static rocksdb_iterator_t *create_iterator(rocksdb_t *db, const rocksdb_readoptions_t *options)
{
    return (rocksdb_iterator_t *)&row;
}

static void seek(rocksdb_iterator_t *at, const char *key, size_t length)
{
}

static unsigned char valid(const rocksdb_iterator_t *at)
{
    return row < ROWS;
}

static void next(rocksdb_iterator_t *at)
{
    row++;
}

static const char *key_of(const rocksdb_iterator_t *at, size_t *length)
{
    *length = 3;
    return "key";
}

static const char *iterator_value(const rocksdb_iterator_t *at, size_t *length)
{
    return value_of(length);
}

static void no_error(const rocksdb_iterator_t *at, char **words)
{
}

static void destroy(rocksdb_iterator_t *at)
{
}

bool rocksdb_database_open(struct lg_client *client, const json_t *connection,
                           struct tb_error *error)
{
    client->call = (struct rocksdb_library){
        .get_pinned = get_pinned,
        .pinnableslice_value = slice_value,
        .pinnableslice_destroy = slice_destroy,
        .create_iterator = create_iterator,
        .iter_seek = seek,
        .iter_valid = valid,
        .iter_next = next,
        .iter_key = key_of,
        .iter_value = iterator_value,
        .iter_get_error = no_error,
        .iter_destroy = destroy,
    };
    return true;
}

void rocksdb_database_close(struct lg_client *client)
{
}

bool rocksdb_said(const struct rocksdb_library *library, char *words, const char *asked,
                  struct tb_error *error)
{
    return false;
}

bool rocksdb_settle(struct lg_client *client, struct tb_error *error)
{
    return true;
}

json_t *rocksdb_counters(struct lg_client *client, struct tb_error *error)
{
    return NULL;
}

int main(int count, char **arguments)
{
    struct tb_error error = {""};
    struct lg_statement statement = {.name = "read", .sql = arguments[count - 1]};
    statement.parameters[1].value = 1;
    const struct lg_value given[] = {
        {.kind = LG_TEXT, .text = "key", .length = 3},
        {.kind = LG_INT, .integer = ROWS},
    };
    struct lg_result result = {.rows = 0};
    struct lg_client *client = loadgen_backend.open(NULL, &error);
    struct lg_session *session =
        loadgen_backend.connect(client, &statement, 1, &result, &error);
    if (!session) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    loadgen_backend.submit(session, &statement, given, NULL);
    int touched = 0, all = 0;
    for (int i = 0; i < ROWS && values[i]; i++) {
        unsigned char present[PAGES];
        mincore(values[i], (size_t)PAGES * (size_t)getpagesize(), present);
        for (int page = 0; page < PAGES; page++, all++)
            touched += present[page] & 1;
    }
    printf("%d %d\n", touched, all);
    loadgen_backend.disconnect(session);
    loadgen_backend.close(client);
    return 0;
}

/* See loadgen_library.h. */
#include "loadgen_library.h"
#include "workload.h"

#include <dlfcn.h>
#include <sys/resource.h>

/*
 * rocksdb::StatsLevel::kExceptDetailedTimers: RocksDB's default, and the lowest level of its Java
 * interface, so that statistics cost both drivers the same.
 */
#define STATISTICS_LEVEL 3

static bool find(struct rocksdb_library *library, const char *name, void *function)
{
    void *found = dlsym(library->handle, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool rocksdb_library_open(struct rocksdb_library *library, const char *path,
                          struct tb_error *error)
{
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return tb_fail(error, "open the RocksDB library: %s", dlerror());
#define FIND(returned, name, taken) \
    if (!find(library, "rocksdb_" #name, &library->name)) { \
        tb_fail(error, "%s has no function rocksdb_" #name ": it was built without RocksDB's " \
                "C interface", path); \
        return false; \
    }
#define FIND_NEWER(returned, name, taken) find(library, "rocksdb_" #name, &library->name);
    ROCKSDB_FUNCTIONS(FIND)
    ROCKSDB_NEWER_FUNCTIONS(FIND_NEWER)
    return true;
}

bool rocksdb_said(const struct rocksdb_library *library, char *words, const char *action,
                  struct tb_error *error)
{
    if (!words)
        return false;
    tb_fail(error, "%s: %s", action, words);
    library->free(words);
    return true;
}

static const char *text_of(const json_t *connection, const char *key)
{
    const char *text = json_string_value(json_object_get(connection, key));
    return text ? text : "";
}

static bool is_true(const json_t *connection, const char *key)
{
    return json_is_true(json_object_get(connection, key));
}

/* "name=value;…", RocksDB's text format. */
static void render(struct tb_text *into, const json_t *options)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)options, name, value)
        tb_text_printf(into, "%s=%s;", name, json_string_value(value));
    tb_text_add(into, "", 1);
}

/* The row cache has no text form. */
static bool set_row_cache(struct lg_client *client, const json_t *connection,
                          struct tb_error *error)
{
    const struct rocksdb_library *call = &client->call;
    json_int_t bytes = json_integer_value(json_object_get(connection, "row_cache_bytes"));
    if (bytes <= 0)
        return true;
    if (!call->cache_create_lru || !call->cache_destroy || !call->options_set_row_cache)
        return tb_fail(error, "row_cache_bytes: this RocksDB's C interface has no row cache");
    rocksdb_cache_t *cache = call->cache_create_lru((size_t)bytes);
    call->options_set_row_cache(client->options, cache);
    call->cache_destroy(cache); /* the options retain it, and then the database */
    return true;
}

static bool read_options(struct lg_client *client, const json_t *connection,
                         struct tb_error *error)
{
    const struct rocksdb_library *call = &client->call;
    struct tb_text text = {0};
    char *words = NULL;
    rocksdb_options_t *plain = call->options_create();
    client->counts = !json_is_false(json_object_get(connection, "statistics"));
    if (client->counts) {
        call->options_enable_statistics(plain);
        if (call->options_set_statistics_level)
            call->options_set_statistics_level(plain, STATISTICS_LEVEL);
    }
    client->options = call->options_create();
    render(&text, json_object_get(connection, "options"));
    call->get_options_from_string(plain, text.bytes, client->options, &words);
    free(text.bytes);
    call->options_destroy(plain);
    if (rocksdb_said(call, words, "options of RocksDB", error) ||
        !set_row_cache(client, connection, error))
        return false;
    call->options_set_create_if_missing(client->options, is_true(connection, "create"));
    call->options_set_wal_dir(client->options, text_of(connection, "wal_directory"));
    call->options_set_merge_operator(client->options, rocksdb_record_merge(call));
    return true;
}

/* RocksDB keeps its files open. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool rocksdb_database_open(struct lg_client *client, const json_t *connection,
                           struct tb_error *error)
{
    struct rocksdb_library *call = &client->call;
    const char *directory = text_of(connection, "directory");
    char *words = NULL;
    allow_many_files();
    if (!rocksdb_library_open(call, text_of(connection, "library"), error) ||
        !read_options(client, connection, error))
        return false;
    client->writes = call->writeoptions_create();
    call->writeoptions_set_sync(client->writes, is_true(connection, "sync"));
    call->writeoptions_disable_WAL(client->writes, is_true(connection, "disable_wal"));
    client->reads = call->readoptions_create();
    call->readoptions_set_total_order_seek(client->reads, true);
    client->db = call->open(client->options, directory, &words);
    return !rocksdb_said(call, words, "open the RocksDB database", error);
}

void rocksdb_database_close(struct lg_client *client)
{
    const struct rocksdb_library *call = &client->call;
    if (client->db)
        call->close(client->db);
    if (client->reads)
        call->readoptions_destroy(client->reads);
    if (client->writes)
        call->writeoptions_destroy(client->writes);
    if (client->options)
        call->options_destroy(client->options);
    /* The library remains open: its threads may still be ending. */
}

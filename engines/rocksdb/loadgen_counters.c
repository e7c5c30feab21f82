/*
 * RocksDB's counters: tickers by name, levels as text; and errors of its background work.
 */
#include "loadgen_library.h"
#include "workload.h"

#include <ctype.h>

#define POLL_NS 20000000
#define QUIET_POLLS 5

static const char *const at_work[] = {
    "rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending", "rocksdb.num-running-compactions",
};

static uint64_t property(struct lg_client *client, const char *name)
{
    uint64_t value = 0;
    client->call.property_int(client->db, name, &value);
    return value;
}

/*
 * "rocksdb.block.cache.bytes.read" → rocksdb_block_cache_read_bytes; the same for a final "size";
 * micros, nanos → …_ns; all others are counts. Returns the factor for the value.
 */
static int64_t rename_ticker(struct tb_text *into, const char *name, size_t length)
{
    const char *unit = "_count";
    int64_t factor = 1;
    into->length = 0;
    for (size_t i = 0; i < length;) {
        size_t end = i;
        while (end < length && isalnum((unsigned char)name[end]))
            end++;
        const char *word = name + i;
        size_t letters = end - i;
        if (letters == 5 && memcmp(word, "bytes", 5) == 0) {
            unit = "_bytes";
        } else if (letters == 6 && memcmp(word, "micros", 6) == 0) {
            unit = "_ns";
            factor = 1000;
        } else if (letters == 5 && memcmp(word, "nanos", 5) == 0) {
            unit = "_ns";
        } else if (end == length && letters == 4 && memcmp(word, "size", 4) == 0) {
            unit = "_bytes";
        } else if (letters && !(end == length && letters == 5 && memcmp(word, "count", 5) == 0)) {
            if (into->length)
                tb_text_add(into, "_", 1);
            tb_text_add(into, word, letters);
        }
        i = end + 1;
    }
    tb_text_printf(into, "%s", unit);
    tb_text_add(into, "", 1);
    return factor;
}

/* A ticker's line: "rocksdb.block.cache.miss COUNT : 17"; those of histograms have more fields. */
static void add_ticker(json_t *into, struct tb_text *name, const char *line, const char *end)
{
    static const char middle[] = " COUNT : ";
    const char *count = memmem(line, (size_t)(end - line), middle, sizeof middle - 1);
    if (!count || memchr(line, ' ', (size_t)(end - line)) != count)
        return;
    int64_t factor = rename_ticker(name, line, (size_t)(count - line));
    int64_t value = (int64_t)strtoull(count + sizeof middle - 1, NULL, 10);
    json_object_set_new(into, name->bytes, json_integer(value * factor));
}

static void add_tickers(struct lg_client *client, json_t *into)
{
    struct tb_text name = {0};
    char *text = client->call.options_statistics_get_string(client->options);
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        end = end ? end : line + strlen(line);
        add_ticker(into, &name, line, end);
        line = *end ? end + 1 : end;
    }
    client->call.free(text);
    free(name.bytes);
}

static void add_text(struct lg_client *client, json_t *into, const char *name,
                     const char *what)
{
    char *text = client->call.property_value(client->db, what);
    if (text)
        json_object_set_new(into, name, json_string(text));
    client->call.free(text);
}

bool rocksdb_background_is_well(struct lg_client *client, struct tb_error *error)
{
    static const char action[] = "RocksDB's flushes and compactions";
    const struct rocksdb_library *call = &client->call;
    uint64_t errors = property(client, "rocksdb.background-errors");
    char *words = NULL;
    if (errors == 0)
        return true;
    /* A flush reports the cause, unless RocksDB has recovered in the meantime. */
    rocksdb_flushoptions_t *flush = call->flushoptions_create();
    call->flush(client->db, flush, &words);
    call->flushoptions_destroy(flush);
    if (!rocksdb_said(call, words, action, error))
        tb_fail(error, "%s: %" PRIu64 " errors, see its LOG file", action, errors);
    return false;
}

json_t *rocksdb_counters(struct lg_client *client, struct tb_error *error)
{
    if (!rocksdb_background_is_well(client, error))
        return NULL;
    json_t *found = json_object();
    if (client->counts)
        add_tickers(client, found);
    /* The compaction backlog: it grows if compactions are postponed. */
    json_object_set_new(
        found, "rocksdb_pending_compaction_bytes",
        json_integer((int64_t)property(client, "rocksdb.estimate-pending-compaction-bytes")));
    add_text(client, found, "rocksdb_levels", "rocksdb.levelstats");
    if (!client->settled)
        add_text(client, found, "rocksdb_statistics", "rocksdb.stats");
    return found;
}

static bool wait_for_compactions(struct lg_client *client, struct tb_error *error)
{
    const struct rocksdb_library *call = &client->call;
    char *words = NULL;
    if (call->wait_for_compact && call->wait_for_compact_options_create) {
        rocksdb_wait_for_compact_options_t *options = call->wait_for_compact_options_create();
        call->wait_for_compact(client->db, options, &words);
        call->wait_for_compact_options_destroy(options);
        return !rocksdb_said(call, words, "wait for compactions", error);
    }
    for (int quiet = 0; quiet < QUIET_POLLS;) {
        uint64_t work = 0;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        for (size_t i = 0; i < sizeof at_work / sizeof *at_work; i++)
            work += property(client, at_work[i]);
        if (!rocksdb_background_is_well(client, error))
            return false;
        quiet = work ? 0 : quiet + 1;
    }
    return true;
}

/* Flush, and wait for compactions: a run starts without background work. */
bool rocksdb_settle(struct lg_client *client, struct tb_error *error)
{
    const struct rocksdb_library *call = &client->call;
    char *words = NULL;
    rocksdb_flushoptions_t *flush = call->flushoptions_create();
    call->flush(client->db, flush, &words);
    call->flushoptions_destroy(flush);
    client->settled = true;
    return !rocksdb_said(call, words, "flush what was loaded", error) &&
           wait_for_compactions(client, error) && rocksdb_background_is_well(client, error);
}

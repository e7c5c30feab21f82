/*
 * An embedded key-value engine for tests, and to see what the client costs by itself:
 * records in memory, kept in one file from one process to the next.
 *
 *   "backend": "store", "connection": {"file": "…"}
 *
 * The file (which may not be there yet) has keys and records one after the other, each
 * after its length (4 bytes, big-endian). A hash table of chains, each part of it with
 * a lock of its own; scans go over a sorted list of the entries, made again where keys have
 * come since the last one. Entries are never removed, and their keys never change.
 */
#include "backend.h"
#include "record.h"

#include <endian.h>

enum { BUCKETS = 1 << 16, LOCKS = 256 };

struct entry {
    struct entry *next;
    char *key, *record;
    size_t key_length, record_length;
};

struct lg_client {
    char *path;
    struct entry *buckets[BUCKETS];
    pthread_mutex_t locks[LOCKS];
    atomic_size_t count;
    uint64_t opened_ns;
    pthread_mutex_t sorted_lock;
    struct entry **sorted;
    size_t sorted_count;
};

static char *copy_of(const char *bytes, size_t length)
{
    char *copy = tb_allocate(length + 1, 1);
    memcpy(copy, bytes, length);
    return copy;
}

static size_t bucket_of(const char *key, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)key[i]) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 32) % BUCKETS;
}

/* With the lock of its bucket held. */
static struct entry *find(const struct lg_client *store, size_t bucket, const char *key,
                          size_t length)
{
    struct entry *entry = store->buckets[bucket];
    while (entry && (entry->key_length != length || memcmp(entry->key, key, length) != 0))
        entry = entry->next;
    return entry;
}

static pthread_mutex_t *lock(struct lg_client *store, size_t bucket)
{
    pthread_mutex_lock(&store->locks[bucket % LOCKS]);
    return &store->locks[bucket % LOCKS];
}

static void put(struct lg_client *store, const char *key, size_t key_length,
                const char *record, size_t record_length)
{
    size_t bucket = bucket_of(key, key_length);
    pthread_mutex_t *held = lock(store, bucket);
    struct entry *entry = find(store, bucket, key, key_length);
    if (!entry) {
        entry = tb_allocate(1, sizeof *entry);
        entry->key = copy_of(key, key_length);
        entry->key_length = key_length;
        entry->next = store->buckets[bucket];
        store->buckets[bucket] = entry;
        atomic_fetch_add(&store->count, 1);
    }
    free(entry->record);
    entry->record = copy_of(record, record_length);
    entry->record_length = record_length;
    pthread_mutex_unlock(held);
}

static void show(const struct entry *entry, const struct lg_reader *reader,
                 struct lg_result *result)
{
    const struct lg_cell cells[] = {{entry->key, entry->key_length},
                                    {entry->record, entry->record_length}};
    result->rows++;
    if (reader)
        reader->row(reader->context, cells, 2);
}

static void get(struct lg_client *store, const struct lg_value *key,
                const struct lg_reader *reader, struct lg_result *result)
{
    size_t bucket = bucket_of(key->text, key->length);
    pthread_mutex_t *held = lock(store, bucket);
    const struct entry *entry = find(store, bucket, key->text, key->length);
    if (entry)
        show(entry, reader, result);
    pthread_mutex_unlock(held);
}

static void modify(struct lg_client *store, const struct lg_value *key,
                   const struct lg_value *change, struct lg_result *result)
{
    size_t bucket = bucket_of(key->text, key->length);
    pthread_mutex_t *held = lock(store, bucket);
    struct entry *entry = find(store, bucket, key->text, key->length);
    struct tb_text changed = {0};
    result->affected = entry ? 1 : 0;
    if (entry && lg_record_change(&changed, entry->record, entry->record_length, change->text,
                                  change->length)) {
        free(entry->record);
        entry->record = changed.bytes;
        entry->record_length = changed.length;
    } else if (entry) {
        free(changed.bytes);
        result->outcome = LG_REFUSED;
        snprintf(result->message, sizeof result->message, "the record is not well formed");
    }
    pthread_mutex_unlock(held);
}

/* By their bytes; a key that another one begins with comes first. */
static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *one = *(struct entry *const *)a, *other = *(struct entry *const *)b;
    return compare(one->key, one->key_length, other->key, other->key_length);
}

/* With `sorted_lock` held. */
static void sort(struct lg_client *store)
{
    size_t count = 0;
    if (store->sorted_count == atomic_load(&store->count))
        return;
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_lock(&store->locks[i]);
    free(store->sorted);
    store->sorted = tb_allocate(atomic_load(&store->count), sizeof *store->sorted);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct entry *entry = store->buckets[i]; entry; entry = entry->next)
            store->sorted[count++] = entry;
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_unlock(&store->locks[i]);
    qsort(store->sorted, count, sizeof *store->sorted, compare_entries);
    store->sorted_count = count;
}

static void scan(struct lg_client *store, const struct lg_value *from, int64_t length,
                 const struct lg_reader *reader, struct lg_result *result)
{
    size_t low = 0, high;
    pthread_mutex_lock(&store->sorted_lock);
    sort(store);
    high = store->sorted_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct entry *entry = store->sorted[middle];
        if (compare(entry->key, entry->key_length, from->text, from->length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < store->sorted_count && (int64_t)result->rows < length; low++) {
        const struct entry *entry = store->sorted[low];
        pthread_mutex_t *held = lock(store, bucket_of(entry->key, entry->key_length));
        show(entry, reader, result);
        pthread_mutex_unlock(held);
    }
    pthread_mutex_unlock(&store->sorted_lock);
}

/* ---- file ---------------------------------------------------------------------- */

/* Length and bytes; false at the end. */
static bool read_bytes(FILE *file, struct tb_text *into)
{
    uint32_t big;
    into->length = 0;
    if (fread(&big, sizeof big, 1, file) != 1)
        return false;
    for (uint32_t left = be32toh(big); left > 0; left--) {
        char byte = (char)getc(file);
        tb_text_add(into, &byte, 1);
    }
    return !feof(file);
}

static struct lg_client *store_open(const json_t *connection, struct tb_error *error)
{
    const char *path = json_string_value(json_object_get(connection, "file"));
    struct lg_client *store = tb_allocate(1, sizeof *store);
    struct tb_text key = {0}, record = {0};
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!path || (!file && errno != ENOENT)) {
        tb_fail(error, "connection.file: %s", path ? strerror(errno) : "is required");
        free(store);
        return NULL;
    }
    store->path = copy_of(path, strlen(path));
    store->opened_ns = tb_monotonic_ns();
    pthread_mutex_init(&store->sorted_lock, NULL);
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&store->locks[i], NULL);
    while (file && read_bytes(file, &key) && read_bytes(file, &record))
        put(store, key.bytes, key.length, record.bytes, record.length);
    if (file)
        fclose(file);
    free(key.bytes);
    free(record.bytes);
    return store;
}

static void write_bytes(FILE *file, const char *bytes, size_t length)
{
    uint32_t big = htobe32((uint32_t)length);
    fwrite(&big, sizeof big, 1, file);
    fwrite(bytes, 1, length, file);
}

static void store_close(struct lg_client *store)
{
    FILE *file = fopen(store->path, "w");
    for (size_t i = 0; i < BUCKETS; i++) {
        struct entry *entry = store->buckets[i];
        while (entry) {
            struct entry *next = entry->next;
            if (file) {
                write_bytes(file, entry->key, entry->key_length);
                write_bytes(file, entry->record, entry->record_length);
            }
            free(entry->key);
            free(entry->record);
            free(entry);
            entry = next;
        }
    }
    if (!file || fclose(file) != 0)
        fprintf(stderr, "store: %s: %s\n", store->path, strerror(errno));
    free(store->sorted);
    free(store->path);
    free(store);
}

/* ---- connections ----------------------------------------------------------------- */

struct lg_session {
    struct lg_client *store;
    struct lg_result *result;
    int64_t stored;
};

static struct lg_session *store_connect(struct lg_client *store,
                                        const struct lg_statement *statements, size_t count,
                                        struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);
    *session = (struct lg_session){.store = store, .result = result};
    return session;
}

static void store_disconnect(struct lg_session *session)
{
    free(session);
}

static enum lg_state store_submit(struct lg_session *session, const struct lg_statement *statement,
                                  const struct lg_value *values, const struct lg_reader *reader)
{
    struct lg_result *result = session->result;
    const struct lg_value *key = &values[statement->parameters[0].value];
    const struct lg_value *second = &values[statement->parameters[1].value]; /* not of `get` */
    result->outcome = LG_OK;
    result->rows = 0;
    result->affected = -1;
    if (strncmp(statement->sql, "get ", 4) == 0) {
        get(session->store, key, reader, result);
    } else if (strncmp(statement->sql, "put ", 4) == 0) {
        put(session->store, key->text, key->length, second->text, second->length);
        result->affected = 1;
    } else if (strncmp(statement->sql, "scan ", 5) == 0) {
        scan(session->store, key, second->integer, reader, result);
    } else {
        modify(session->store, key, second, result);
    }
    return LG_READY;
}

static bool store_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                             struct tb_error *error)
{
    session->stored = 0;
    return true;
}

static bool store_bulk_put(struct lg_session *session, const char *key, size_t key_length,
                           const char *record, size_t record_length, struct tb_error *error)
{
    put(session->store, key, key_length, record, record_length);
    session->stored++;
    return true;
}

static int64_t store_bulk_end(struct lg_session *session, struct tb_error *error)
{
    return session->stored;
}

static json_t *store_counters(struct lg_client *store, struct tb_error *error)
{
    return json_pack("{s:I, s:I, s:s}", "store_records_count",
                     (json_int_t)atomic_load(&store->count), "store_open_ns",
                     (json_int_t)(tb_monotonic_ns() - store->opened_ns), "store_kind", "hash table");
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .key_value = true,
    .open = store_open,
    .close = store_close,
    .connect = store_connect,
    .disconnect = store_disconnect,
    .submit = store_submit,
    .bulk_begin = store_bulk_begin,
    .bulk_put = store_bulk_put,
    .bulk_end = store_bulk_end,
    .counters = store_counters,
};

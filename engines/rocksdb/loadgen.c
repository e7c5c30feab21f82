/*
 * loadgen's back end for RocksDB: the database is opened inside this process, through the
 * library's C interface.
 *
 *   connection: {
 *     "library": "/…/librocksdb.so",       opened with dlopen (loadgen_library.c)
 *     "directory": "/…", "wal_directory": "/…", "create": false,
 *     "options": {"write_buffer_size": "67108864", …},    text that RocksDB parses
 *     "row_cache_bytes": 0,                               cache of whole rows; 0: none
 *     "sync": false, "disable_wal": false,                for every write
 *     "statistics": true                                  tickers, for `counters`
 *   }
 *   statements: get :key · put :key :record · modify :key :change · merge :key :change ·
 *               scan :key :length
 *
 * `modify` reads, changes and writes a record. Other modifications of that record wait (locks
 * striped over the keys), so that no change is lost; `merge` leaves that to the merge operator.
 * Any error except "busy" ends the run with RocksDB's message.
 */
#include "loadgen_library.h"
#include "record.h"
#include "workload.h"

/* Records of a bulk load that are written together. */
#define BATCH_BYTES (1 << 20)
#define STRIPES 4096
#define CACHE_LINE 64 /* of a stripe */

struct verb {
    const char *name;
    const char *parameters[2];
    void (*execute)(struct lg_session *session, const struct lg_value *key,
                    const struct lg_value *argument);
};

/* A parsed statement: the call, and the workload's values that are its arguments. */
struct plan {
    const struct verb *verb;
    int key, argument;
};

struct lg_session {
    struct lg_client *client;
    const struct lg_statement *statements;
    struct plan *plans;
    const struct lg_reader *reader;
    struct tb_text changed, copied;
    struct lg_result *result;
    rocksdb_writebatch_t *batch;
    size_t batch_bytes;
    int64_t stored;
};

/* RocksDB's message, if any; its first words ("IO error", "Corruption") are the code. */
static bool refused(struct lg_session *session, char *words)
{
    struct lg_result *result = session->result;
    if (!words)
        return false;
    result->outcome = strncmp(words, "Resource busy", 13) == 0 ? LG_RETRY : LG_REFUSED;
    snprintf(result->code, sizeof result->code, "%.*s", (int)strcspn(words, ":"), words);
    snprintf(result->message, sizeof result->message, "%s", words);
    session->client->call.free(words);
    return true;
}

/*
 * RocksDB returns a pointer into its cache or a mapped file. If no reader looks at the row, it is
 * copied, as an application would and the official client does: otherwise, the memory or device
 * that contains the value would not be read.
 */
static void show(struct lg_session *session, const char *key, size_t key_length, const char *record,
                 size_t record_length)
{
    const struct lg_reader *reader = session->reader;
    const struct lg_cell cells[] = {{key, key_length}, {record, record_length}};
    if (reader) {
        reader->row(reader->context, cells, 2);
        return;
    }
    session->copied.length = 0;
    tb_text_add(&session->copied, key, key_length);
    tb_text_add(&session->copied, record, record_length);
}

static void get(struct lg_session *session, const struct lg_value *key,
                const struct lg_value *argument)
{
    struct lg_client *client = session->client;
    const struct rocksdb_library *call = &client->call;
    char *words = NULL;
    size_t length;
    rocksdb_pinnableslice_t *found =
        call->get_pinned(client->db, client->reads, key->text, key->length, &words);
    if (refused(session, words) || !found)
        return;
    session->result->rows = 1;
    const char *record = call->pinnableslice_value(found, &length);
    show(session, key->text, key->length, record, length);
    call->pinnableslice_destroy(found);
}

static void put(struct lg_session *session, const struct lg_value *key,
                const struct lg_value *record)
{
    struct lg_client *client = session->client;
    char *words = NULL;
    client->call.put(client->db, client->writes, key->text, key->length, record->text,
                     record->length, &words);
    session->result->affected = !refused(session, words);
}

static void merge(struct lg_session *session, const struct lg_value *key,
                  const struct lg_value *change)
{
    struct lg_client *client = session->client;
    char *words = NULL;
    client->call.merge(client->db, client->writes, key->text, key->length, change->text,
                       change->length, &words);
    if (!refused(session, words))
        session->result->affected = -1;
}

static pthread_mutex_t *stripe_of(const struct lg_client *client, const struct lg_value *key)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < key->length; i++)
        hash = (hash ^ (unsigned char)key->text[i]) * UINT64_C(1099511628211);
    return &client->stripes[(hash ^ hash >> 32) % STRIPES].lock;
}

/* True if the record exists; the changed record is in the session's buffer. */
static bool change_record(struct lg_session *session, const struct lg_value *key,
                          const struct lg_value *change)
{
    struct lg_client *client = session->client;
    const struct rocksdb_library *call = &client->call;
    char *words = NULL;
    size_t length;
    rocksdb_pinnableslice_t *found =
        call->get_pinned(client->db, client->reads, key->text, key->length, &words);
    if (refused(session, words) || !found)
        return false;
    const char *record = call->pinnableslice_value(found, &length);
    session->changed.length = 0;
    bool well = lg_record_change(&session->changed, record, length, change->text, change->length);
    call->pinnableslice_destroy(found);
    if (well)
        return true;
    session->result->outcome = LG_REFUSED;
    snprintf(session->result->message, sizeof session->result->message,
             "the record of key %.*s is not well formed", (int)key->length, key->text);
    return false;
}

static void modify(struct lg_session *session, const struct lg_value *key,
                   const struct lg_value *change)
{
    pthread_mutex_t *lock = stripe_of(session->client, key);
    pthread_mutex_lock(lock);
    if (change_record(session, key, change)) {
        const struct lg_value record = {
            .text = session->changed.bytes, .length = session->changed.length,
        };
        put(session, key, &record);
    }
    pthread_mutex_unlock(lock);
}

static void scan(struct lg_session *session, const struct lg_value *key,
                 const struct lg_value *length)
{
    struct lg_client *client = session->client;
    const struct rocksdb_library *call = &client->call;
    char *words = NULL;
    size_t rows = 0;
    rocksdb_iterator_t *at = call->create_iterator(client->db, client->reads);
    for (call->iter_seek(at, key->text, key->length);
         rows < (size_t)length->integer && call->iter_valid(at); call->iter_next(at)) {
        size_t found_length, record_length;
        const char *found = call->iter_key(at, &found_length);
        const char *record = call->iter_value(at, &record_length);
        show(session, found, found_length, record, record_length);
        rows++;
    }
    call->iter_get_error(at, &words);
    call->iter_destroy(at);
    if (!refused(session, words))
        session->result->rows = rows;
}

static const struct verb verbs[] = {
    {"get", {":key"}, get},
    {"put", {":key", ":record"}, put},
    {"modify", {":key", ":change"}, modify},
    {"merge", {":key", ":change"}, merge},
    {"scan", {":key", ":length"}, scan},
};

static void rocksdb_close(struct lg_client *client)
{
    rocksdb_database_close(client);
    free(client->stripes);
    free(client);
}

static struct lg_client *rocksdb_open(const json_t *connection, struct tb_error *error)
{
    struct lg_client *client = tb_allocate(1, sizeof *client);
    client->stripes = aligned_alloc(CACHE_LINE, STRIPES * sizeof *client->stripes);
    if (!client->stripes) {
        tb_fail(error, "no memory for the RocksDB back end");
        free(client);
        return NULL;
    }
    for (size_t i = 0; i < STRIPES; i++)
        pthread_mutex_init(&client->stripes[i].lock, NULL);
    if (rocksdb_database_open(client, connection, error))
        return client;
    rocksdb_close(client);
    return NULL;
}

/* "modify :key :change": a call and the names of its values, separated by blanks. */
static bool understand(struct plan *plan, const struct lg_statement *statement,
                       struct tb_error *error)
{
    char verb[16], first[16], second[16], more[2];
    int words = sscanf(statement->sql, "%15s %15s %15s %1s", verb, first, second, more);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const struct verb *one = &verbs[i];
        int wanted = one->parameters[1] ? 3 : 2;
        if (words == wanted && strcmp(verb, one->name) == 0 &&
            strcmp(first, one->parameters[0]) == 0 &&
            (wanted == 2 || strcmp(second, one->parameters[1]) == 0)) {
            plan->verb = one;
            plan->key = statement->parameters[0].value;
            plan->argument = wanted == 3 ? statement->parameters[1].value : plan->key;
            return true;
        }
    }
    return tb_fail(error, "%s: \"%s\" is none of: get :key · put :key :record · "
                   "modify :key :change · merge :key :change · scan :key :length",
                   statement->name, statement->sql);
}

static void rocksdb_disconnect(struct lg_session *session)
{
    if (session->batch)
        session->client->call.writebatch_destroy(session->batch);
    free(session->changed.bytes);
    free(session->copied.bytes);
    free(session->plans);
    free(session);
}

static struct lg_session *rocksdb_connect(struct lg_client *client,
                                          const struct lg_statement *statements, size_t count,
                                          struct lg_result *result, struct tb_error *error)
{
    struct lg_session *session = tb_allocate(1, sizeof *session);
    *session = (struct lg_session){.client = client, .statements = statements, .result = result};
    session->plans = tb_allocate(count + 1, sizeof *session->plans);
    for (size_t i = 0; i < count; i++) {
        if (statements[i].sql && !understand(&session->plans[i], &statements[i], error)) {
            rocksdb_disconnect(session);
            return NULL;
        }
    }
    return session;
}

static enum lg_state rocksdb_submit(struct lg_session *session,
                                    const struct lg_statement *statement,
                                    const struct lg_value *values, const struct lg_reader *reader)
{
    const struct plan *plan = &session->plans[statement - session->statements];
    struct lg_result *result = session->result;
    session->reader = reader;
    if (result->outcome != LG_OK)
        result->code[0] = result->message[0] = '\0';
    result->outcome = LG_OK;
    result->rows = 0;
    result->affected = 0;
    plan->verb->execute(session, &values[plan->key], &values[plan->argument]);
    return LG_READY;
}

static bool rocksdb_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                       struct tb_error *error)
{
    if (!session->batch)
        session->batch = session->client->call.writebatch_create();
    session->stored = 0;
    return true;
}

static bool write_batch(struct lg_session *session, struct tb_error *error)
{
    struct lg_client *client = session->client;
    char *words = NULL;
    client->call.write(client->db, client->writes, session->batch, &words);
    client->call.writebatch_clear(session->batch);
    session->batch_bytes = 0;
    return !rocksdb_said(&client->call, words, "load", error);
}

static bool rocksdb_bulk_put(struct lg_session *session, const char *key, size_t key_length,
                             const char *record, size_t record_length, struct tb_error *error)
{
    session->client->call.writebatch_put(session->batch, key, key_length, record,
                                                 record_length);
    session->batch_bytes += key_length + record_length;
    session->stored++;
    return session->batch_bytes < BATCH_BYTES || write_batch(session, error);
}

static int64_t rocksdb_bulk_end(struct lg_session *session, struct tb_error *error)
{
    if (session->batch_bytes && !write_batch(session, error))
        return -1;
    return session->stored;
}

const struct lg_backend loadgen_backend = {
    .abi = LG_BACKEND_ABI,
    .key_value = true,
    .open = rocksdb_open,
    .close = rocksdb_close,
    .connect = rocksdb_connect,
    .disconnect = rocksdb_disconnect,
    .submit = rocksdb_submit,
    .bulk_begin = rocksdb_bulk_begin,
    .bulk_put = rocksdb_bulk_put,
    .bulk_end = rocksdb_bulk_end,
    .settle = rocksdb_settle,
    .counters = rocksdb_counters,
};

/*
 * Threads that change the same records at once, through the back end for RocksDB alone:
 *
 *   rocksdb_writers '{"connection": {…}, "verb": "modify", "threads": 4, "keys": 3,
 *                     "rounds": 1000}'
 *
 * Every record has a field of each thread, in which that thread counts up. In the end each
 * field says how often it was changed, unless a change was lost. Prints the records as
 * JSON; "verb": "careless" reads and writes with nothing in between, to see that one is.
 */
#include "backend.h"
#include "record.h"
#include "workload.h"


extern const struct lg_backend loadgen_backend;
static const struct lg_backend *const backend = &loadgen_backend;

enum { GET, PUT, CHANGE, STATEMENTS };

struct kept {
    struct tb_text record;
};

struct writer {
    pthread_t thread;
    struct lg_client *client;
    const struct lg_statement *statements;
    bool careless;
    int number, keys, rounds;
};

struct session {
    struct lg_session *session;
    struct lg_result result;
};

static void die(const char *words)
{
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void keep(void *context, const struct lg_cell *cells, size_t columns)
{
    struct kept *kept = context;
    kept->record.length = 0;
    tb_text_add(&kept->record, cells[1].text, cells[1].length);
}

static void begin(struct session *own, struct lg_client *client,
                  const struct lg_statement *statements)
{
    struct tb_error error = {""};
    *own = (struct session){.session = NULL};
    own->session = backend->connect(client, statements, STATEMENTS, &own->result, &error);
    if (!own->session)
        die(error.text);
}

/* Values of every statement: the key, then the record or the change. */
static size_t ask(struct session *own, const struct lg_statement *statement, int key,
                  const struct tb_text *argument, struct kept *kept)
{
    char name[16];
    int length = snprintf(name, sizeof name, "key%d", key);
    const struct lg_value values[2] = {
        {.kind = LG_TEXT, .text = name, .length = (size_t)length},
        {.kind = LG_TEXT, .text = argument ? argument->bytes : "",
         .length = argument ? argument->length : 0},
    };
    const struct lg_reader reader = {keep, kept};
    backend->submit(own->session, statement, values, kept ? &reader : NULL);
    if (own->result.outcome != LG_OK)
        die(own->result.message);
    return own->result.rows;
}

static void change_to(struct tb_text *change, int writer, int value)
{
    char field[16], text[16];
    int name = snprintf(field, sizeof field, "field%d", writer);
    int length = snprintf(text, sizeof text, "%d", value);
    change->length = 0;
    lg_field_add(change, field, (size_t)name, text, (size_t)length);
}

static void *write_all(void *argument)
{
    const struct writer *writer = argument;
    struct session session;
    struct tb_text change = {0}, next = {0};
    struct kept kept = {{0}};
    begin(&session, writer->client, writer->statements);
    for (int round = 1; round <= writer->rounds; round++) {
        for (int key = 0; key < writer->keys; key++) {
            change_to(&change, writer->number, round);
            if (!writer->careless) {
                ask(&session, &writer->statements[CHANGE], key, &change, NULL);
                continue;
            }
            ask(&session, &writer->statements[GET], key, NULL, &kept);
            next.length = 0;
            if (!lg_record_change(&next, kept.record.bytes, kept.record.length, change.bytes,
                                  change.length))
                die("a record that is not well formed");
            ask(&session, &writer->statements[PUT], key, &next, NULL);
        }
    }
    backend->disconnect(session.session);
    return NULL;
}

static json_t *fields_of(const struct tb_text *record)
{
    json_t *fields = json_object();
    const char *at = record->bytes;
    struct lg_field field;
    while (lg_field_next(&at, record->bytes + record->length, &field))
        json_object_setn_new(fields, field.name, field.name_length,
                             json_stringn(field.value, field.value_length));
    return fields;
}

static int number_of(const json_t *request, const char *name)
{
    return (int)json_integer_value(json_object_get(request, name));
}

int main(int count, char **arguments)
{
    struct tb_error error = {""};
    json_t *request = count == 2 ? json_loads(arguments[1], 0, NULL) : NULL;
    if (!request)
        die("wanted: one argument, JSON");
    const char *verb = json_string_value(json_object_get(request, "verb"));
    bool careless = strcmp(verb, "careless") == 0;
    char sql[32];
    snprintf(sql, sizeof sql, "%s :key :change", careless ? "modify" : verb);
    struct lg_statement statements[STATEMENTS] = {
        [GET] = {.name = "get", .sql = "get :key", .parameter_count = 1},
        [PUT] = {.name = "put", .sql = "put :key :record", .parameter_count = 2},
        [CHANGE] = {.name = "change", .sql = sql, .parameter_count = 2},
    };
    for (int i = 0; i < STATEMENTS; i++)
        statements[i].parameters[1].value = 1;

    struct lg_client *client = backend->open(json_object_get(request, "connection"), &error);
    if (!client)
        die(error.text);
    struct session session;
    begin(&session, client, statements);
    int threads = number_of(request, "threads"), keys = number_of(request, "keys");
    struct tb_text record = {0}, one = {0};
    for (int thread = 0; thread < threads; thread++) {
        change_to(&one, thread, 0);
        tb_text_add(&record, one.bytes, one.length);
    }
    for (int key = 0; key < keys; key++)
        ask(&session, &statements[PUT], key, &record, NULL);

    struct writer *writers = calloc((size_t)threads, sizeof *writers);
    for (int i = 0; i < threads; i++) {
        writers[i] = (struct writer){.client = client, .statements = statements,
                                     .careless = careless, .number = i, .keys = keys,
                                     .rounds = number_of(request, "rounds")};
        pthread_create(&writers[i].thread, NULL, write_all, &writers[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(writers[i].thread, NULL);

    json_t *found = json_object();
    struct kept kept = {{0}};
    for (int key = 0; key < keys; key++) {
        char name[16];
        snprintf(name, sizeof name, "key%d", key);
        if (ask(&session, &statements[GET], key, NULL, &kept) == 1)
            json_object_set_new(found, name, fields_of(&kept.record));
    }
    backend->disconnect(session.session);
    backend->close(client);
    json_dumpf(found, stdout, JSON_SORT_KEYS);
    return 0;
}

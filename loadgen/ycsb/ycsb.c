/*
 * YCSB's core workload: which operation a terminal does next, on which record, with which
 * values, and whether what comes back is as it was written.
 *
 * Everything random is drawn in `begin`; of the values only those are made that the
 * operation's statement uses. Read-modify-write is two calls, the statements of read and
 * of update, and counts once.
 */
#include "counts.h"
#include "keys.h"
#include "load.h"
#include "values.h"

#include "../spec.h"
#include "../support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OFFER_KEY [YCSB_KEY] = {"key", LG_TEXT}
/* Places that an operation does not have: no name is empty. */
#define NO_LENGTH [YCSB_LENGTH] = {"", LG_INT}
#define F(n) [YCSB_FIELD0 + n] = {"field" #n, LG_TEXT}
#define OFFER_FIELDS                                                                         \
    F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7), F(8), F(9), F(10), F(11), F(12), F(13),  \
    F(14), F(15), F(16), F(17), F(18), F(19), F(20), F(21), F(22), F(23), F(24), F(25),      \
    F(26), F(27), F(28), F(29), F(30), F(31), F(32), F(33), F(34), F(35), F(36), F(37),      \
    F(38), F(39), F(40), F(41), F(42), F(43), F(44), F(45), F(46), F(47), F(48), F(49),      \
    F(50), F(51), F(52), F(53), F(54), F(55), F(56), F(57), F(58), F(59), F(60), F(61),      \
    F(62), F(63)
_Static_assert(YCSB_FIELD0 + YCSB_MAX_FIELDS < LG_MAX_VALUES, "room for a NULL name behind");

static const struct lg_operation operations[YCSB_OPERATIONS] = {
    [YCSB_READ] = {"read", {OFFER_KEY, NO_LENGTH, [YCSB_FIELD] = {"field", LG_INT}}},
    [YCSB_UPDATE] = {"update",
                     {OFFER_KEY, NO_LENGTH, [YCSB_FIELD] = {"field", LG_INT},
                      [YCSB_VALUE] = {"value", LG_TEXT}, [YCSB_RECORD] = {"record", LG_TEXT},
                      [YCSB_CHANGE] = {"change", LG_TEXT}, OFFER_FIELDS}},
    [YCSB_INSERT] = {"insert",
                     {OFFER_KEY, NO_LENGTH, [YCSB_FIELD] = {"", LG_INT},
                      [YCSB_VALUE] = {"", LG_TEXT}, [YCSB_RECORD] = {"record", LG_TEXT},
                      [YCSB_CHANGE] = {"", LG_TEXT}, OFFER_FIELDS}},
    [YCSB_SCAN] = {"scan", {OFFER_KEY, [YCSB_LENGTH] = {"length", LG_INT},
                            [YCSB_FIELD] = {"field", LG_INT}}},
    [YCSB_READ_MODIFY_WRITE] = {"read_modify_write", {OFFER_KEY}},
};

/* What a statement uses of the values that cost something to make. */
struct uses {
    bool value, record, change, fields;
    bool list; /* a text for each field */
};

struct ycsb {
    struct lg_ycsb_params params;
    struct lg_ycsb_values values;
    struct lg_ycsb_inserts *inserts;
    struct lg_ycsb_keys keys;
    double mix[YCSB_OPERATIONS]; /* cumulative, the last is 1 */
    struct uses uses[YCSB_OPERATIONS];
    uint32_t terminals;
    bool key_value;
    pthread_mutex_t lock; /* of what follows */
    struct own **owns;
    size_t own_count, own_room;
};

struct own {
    struct ycsb *ycsb;
    struct lg_ycsb_chooser chooser;
    int64_t number;          /* of the record */
    uint64_t key_hash;
    int read_field, written_field; /* -1: all */
    int64_t length;          /* of a scan */
    uint64_t writes;         /* versions handed out */
    bool modifying;          /* read-modify-write: the read is done */
    bool not_found;
    struct lg_ycsb_counts *counts; /* NULL where nobody asks */
    char *fields, *record, *change; /* what is written */
    struct lg_reader reader;
    size_t rows;             /* that it has read */
    const char *wrong;
    char key[YCSB_KEY_BYTES], last[YCSB_KEY_BYTES];
    size_t key_length, last_length;
    char words[256];
};

static struct own *own_of(const struct lg_terminal *terminal)
{
    return *(struct own **)terminal->own;
}

/* ---- opening ------------------------------------------------------------------- */

static void set_mix(struct ycsb *ycsb, json_t *notes)
{
    double total = 0, so_far = 0;
    json_t *mix = json_object();

    for (int i = 0; i < YCSB_OPERATIONS; i++)
        total += ycsb->params.proportions[i];
    for (int i = 0; i < YCSB_OPERATIONS; i++) {
        so_far += ycsb->params.proportions[i] / total;
        ycsb->mix[i] = so_far;
        if (ycsb->params.proportions[i] > 0)
            json_object_set_new(mix, lg_ycsb_operation_names[i],
                                json_real(ycsb->params.proportions[i] / total));
    }
    json_object_set_new(notes, "operations_mix", mix);
}

static void set_notes(const struct ycsb *ycsb, json_t *notes)
{
    const char *checked =
        ycsb->params.fieldlength < YCSB_VERSION_BYTES
            ? "fields are shorter than their version: of a field only its length can be checked"
        : ycsb->params.field_length != YCSB_CONSTANT &&
                ycsb->params.minfieldlength < YCSB_VERSION_BYTES
            ? "of fields shorter than 8 characters only the length can be checked"
            : "every field can be checked: key, field, version and length";

    json_object_set_new(notes, "values", json_string(checked));
    if (ycsb->params.update)
        json_object_set_new(notes, "update", json_string(ycsb->params.update));
    if (ycsb->params.proportions[YCSB_READ_MODIFY_WRITE] > 0)
        json_object_set_new(notes, "read_modify_write",
                            json_string("counted once, with the latency of both calls; the "
                                        "official client counts its read and its update as "
                                        "operations of their own as well"));
}

static void *ycsb_open(const struct lg_opening *opening, struct lg_error *error)
{
    struct ycsb *ycsb = lg_allocate(1, sizeof *ycsb);

    if (!lg_ycsb_params_read(&ycsb->params, opening->params, error)) {
        free(ycsb);
        return NULL;
    }
    if (ycsb->params.proportions[YCSB_INSERT] > 0 && !opening->alone && !opening->shared) {
        lg_fail(error, "shared: processes that insert need a file in common");
        free(ycsb);
        return NULL;
    }
    ycsb->inserts = lg_ycsb_inserts_open(opening->shared, error);
    if (!ycsb->inserts) {
        free(ycsb);
        return NULL;
    }
    lg_ycsb_values_open(&ycsb->values, &ycsb->params);
    lg_ycsb_keys_open(&ycsb->keys, &ycsb->params, ycsb->inserts);
    ycsb->terminals = opening->terminals;
    ycsb->key_value = opening->key_value;
    pthread_mutex_init(&ycsb->lock, NULL);
    set_mix(ycsb, opening->notes);
    set_notes(ycsb, opening->notes);
    return ycsb;
}

static void ycsb_close(void *self)
{
    struct ycsb *ycsb = self;

    for (size_t i = 0; i < ycsb->own_count; i++) {
        struct own *own = ycsb->owns[i];

        if (own->counts)
            lg_ycsb_counts_free(own->counts);
        free(own->fields);
        free(own->record);
        free(own->change);
        free(own);
    }
    free(ycsb->owns);
    lg_ycsb_inserts_close(ycsb->inserts);
    pthread_mutex_destroy(&ycsb->lock);
    free(ycsb);
}

static size_t ycsb_texts(void *self, int operation)
{
    const struct lg_ycsb_params *params = &((struct ycsb *)self)->params;
    bool modifies = params->proportions[YCSB_READ_MODIFY_WRITE] > 0;
    bool paired = operation == YCSB_READ || operation == YCSB_UPDATE;
    bool all = operation == YCSB_UPDATE ? params->writeallfields : params->readallfields;

    if (operation == YCSB_READ_MODIFY_WRITE ||
        !(params->proportions[operation] > 0 || (paired && modifies)))
        return 0;
    return all || operation == YCSB_INSERT ? 1 : (size_t)params->fieldcount;
}

static bool ycsb_prepare(void *self, const struct lg_statements *statements,
                         struct lg_error *error)
{
    struct ycsb *ycsb = self;

    for (int operation = 0; operation < YCSB_OPERATIONS; operation++) {
        struct uses *uses = &ycsb->uses[operation];
        size_t first = statements->of[operation].first, count = statements->of[operation].count;

        uses->list = count > 1;
        for (size_t i = first; i < first + count; i++) {
            const struct lg_statement *statement = &statements->all[i];

            for (size_t p = 0; p < statement->parameter_count; p++) {
                int value = statement->parameters[p].value;

                uses->value |= value == YCSB_VALUE;
                uses->record |= value == YCSB_RECORD;
                uses->change |= value == YCSB_CHANGE;
                uses->fields |= value >= YCSB_FIELD0;
                if (value >= YCSB_FIELD0 + ycsb->params.fieldcount) {
                    lg_fail(error, "statements.%s: there is no :field%d: fieldcount is %d",
                            statement->name, value - YCSB_FIELD0, (int)ycsb->params.fieldcount);
                    return false;
                }
                if (value == YCSB_VALUE && ycsb->params.writeallfields) {
                    lg_fail(error, "statements.%s: with writeallfields there is no one :value",
                            statement->name);
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- reading ------------------------------------------------------------------- */

static void say(struct own *own, const char *key, size_t length, const char *wrong)
{
    if (own->wrong)
        return;
    snprintf(own->words, sizeof own->words, "record %.*s: %s", (int)length, key, wrong);
    own->wrong = own->words;
}

static const char *check_fields(const struct own *own, uint64_t hash, const struct lg_cell *cells,
                                size_t count, int one)
{
    const struct lg_ycsb_values *values = &own->ycsb->values;

    if (!own->ycsb->key_value)
        return lg_ycsb_check_cells(values, hash, cells, count, one);
    return count == 1 ? lg_ycsb_check_record(values, hash, cells[0].text, cells[0].length)
                      : "it is not one record";
}

/* The field that a statement's rows have alone; -1 where they have all. */
static int one_field(const struct own *own, int operation)
{
    return own->ycsb->uses[operation].list ? own->read_field : -1;
}

/* A row of a read: the fields, or the key and these. */
static void read_row(struct own *own, const struct lg_cell *cells, size_t columns)
{
    int one = one_field(own, YCSB_READ);
    size_t fields = one < 0 ? (size_t)own->ycsb->params.fieldcount : 1;
    bool keyed = own->ycsb->key_value || columns == fields + 1;
    const char *wrong;

    if (keyed && (columns == 0 || cells[0].length != own->key_length ||
                  memcmp(cells[0].text, own->key, own->key_length) != 0)) {
        say(own, own->key, own->key_length, "another one came where it was asked for");
        return;
    }
    wrong = check_fields(own, own->key_hash, cells + keyed, columns - keyed, one);
    if (wrong)
        say(own, own->key, own->key_length, wrong);
}

/* A row of a scan: the key and the fields. */
static void scan_row(struct own *own, const struct lg_cell *cells, size_t columns)
{
    size_t length = columns && cells[0].text ? cells[0].length : 0;
    size_t common = length < own->last_length ? length : own->last_length;
    const char *wrong;
    int order;

    if (length == 0 || length > YCSB_KEY_BYTES) {
        say(own, own->key, own->key_length, "a row of the scan from it does not begin with a key");
        return;
    }
    order = memcmp(cells[0].text, own->last, common);
    order = order ? order : (length > own->last_length) - (length < own->last_length);
    if (own->rows == 1 ? order < 0 : order <= 0) {
        say(own, cells[0].text, length, "the scan came to it out of its order");
        return;
    }
    memcpy(own->last, cells[0].text, length);
    own->last_length = length;
    wrong = check_fields(own, lg_ycsb_key_hash(&own->ycsb->values, cells[0].text, length),
                         cells + 1, columns - 1, one_field(own, YCSB_SCAN));
    if (wrong)
        say(own, cells[0].text, length, wrong);
}

static void read_a_row(void *context, const struct lg_cell *cells, size_t columns)
{
    struct lg_terminal *terminal = context;
    struct own *own = own_of(terminal);

    own->rows++;
    if (!own->wrong)
        (terminal->operation == YCSB_SCAN ? scan_row : read_row)(own, cells, columns);
}

/* ---- terminals ----------------------------------------------------------------- */

static void remember(struct ycsb *ycsb, struct own *own)
{
    pthread_mutex_lock(&ycsb->lock);
    if (ycsb->own_count == ycsb->own_room) {
        size_t room = ycsb->own_room ? 2 * ycsb->own_room : 64;
        struct own **larger = lg_allocate(room, sizeof *larger);

        if (ycsb->own_count)
            memcpy(larger, ycsb->owns, ycsb->own_count * sizeof *larger);
        free(ycsb->owns);
        ycsb->owns = larger;
        ycsb->own_room = room;
    }
    ycsb->owns[ycsb->own_count++] = own;
    pthread_mutex_unlock(&ycsb->lock);
}

static bool uses_any(const struct ycsb *ycsb, size_t offset)
{
    for (int i = 0; i < YCSB_OPERATIONS; i++)
        if (*((const bool *)((const char *)&ycsb->uses[i] + offset)))
            return true;
    return false;
}

static void ycsb_terminal(void *self, struct lg_terminal *terminal)
{
    struct ycsb *ycsb = self;
    const struct lg_ycsb_params *params = &ycsb->params;
    struct own *own = lg_allocate(1, sizeof *own);

    *(struct own **)terminal->own = own;
    own->ycsb = ycsb;
    own->read_field = -1;
    own->reader = (struct lg_reader){read_a_row, terminal};
    lg_ycsb_chooser_open(&own->chooser, &ycsb->keys);
    if (params->count_keys)
        own->counts = lg_ycsb_counts_new();
    if (uses_any(ycsb, offsetof(struct uses, fields)) ||
        uses_any(ycsb, offsetof(struct uses, value)))
        own->fields = lg_allocate((size_t)params->fieldcount * (size_t)params->fieldlength +
                                  YCSB_VALUE_SLACK, 1);
    if (uses_any(ycsb, offsetof(struct uses, record)))
        own->record = lg_allocate(lg_ycsb_record_bytes(params), 1);
    if (uses_any(ycsb, offsetof(struct uses, change)))
        own->change = lg_allocate(lg_ycsb_record_bytes(params), 1);
    for (int i = 0; i < LG_MAX_VALUES; i++)
        terminal->values[i].kind = LG_TEXT;
    terminal->values[YCSB_LENGTH].kind = terminal->values[YCSB_FIELD].kind = LG_INT;
    terminal->values[YCSB_KEY].text = own->key;
    remember(ycsb, own);
}

static void set_text(struct lg_terminal *terminal, int place, const char *text, size_t length)
{
    terminal->values[place].text = text;
    terminal->values[place].length = length;
}

/* What is written: all fields (`one` < 0), or that one. */
static void make_values(struct ycsb *ycsb, struct lg_terminal *terminal, int writer, int one)
{
    struct own *own = own_of(terminal);
    const struct uses *uses = &ycsb->uses[writer];
    /* The n-th writing of this terminal; no two of a run have the same version. */
    uint64_t version = own->writes++ * ycsb->terminals + terminal->number + 1;
    struct lg_ycsb_stamp stamp = lg_ycsb_stamp(own->key_hash, version);
    int last = (int)ycsb->params.fieldcount - 1;
    char *to = own->fields;

    if (uses->value)
        set_text(terminal, YCSB_VALUE, to, lg_ycsb_value(&ycsb->values, &stamp, one, to));
    for (int i = 0; uses->fields && i <= last; i++) {
        size_t length = lg_ycsb_value(&ycsb->values, &stamp, i, to);

        set_text(terminal, YCSB_FIELD0 + i, to, length);
        to += length;
    }
    if (uses->record)
        set_text(terminal, YCSB_RECORD, own->record,
                 lg_ycsb_record(&ycsb->values, &stamp, 0, last, own->record));
    if (uses->change)
        set_text(terminal, YCSB_CHANGE, own->change,
                 lg_ycsb_record(&ycsb->values, &stamp, one < 0 ? 0 : one, one < 0 ? last : one,
                                own->change));
}

static int draw_field(const struct ycsb *ycsb, struct lg_random *random)
{
    return (int)lg_random_between(random, 0, ycsb->params.fieldcount - 1);
}

static void choose_record(struct ycsb *ycsb, struct lg_terminal *terminal)
{
    struct own *own = own_of(terminal);

    if (terminal->operation == YCSB_INSERT) {
        own->number = ycsb->params.recordcount + lg_ycsb_inserts_begin(ycsb->inserts);
    } else {
        own->number = lg_ycsb_choose(&ycsb->keys, &own->chooser, &terminal->random);
        if (own->counts)
            lg_ycsb_counts_add(own->counts, own->number);
    }
    own->key_length = lg_ycsb_key(&ycsb->params, own->number, own->key);
    terminal->values[YCSB_KEY].length = own->key_length;
}

static void ycsb_begin(void *self, struct lg_terminal *terminal)
{
    struct ycsb *ycsb = self;
    struct own *own = own_of(terminal);
    double fraction = lg_random_fraction(&terminal->random);
    int operation = 0, one;

    while (operation < YCSB_OPERATIONS - 1 && fraction > ycsb->mix[operation])
        operation++;
    terminal->operation = operation;
    if (terminal->only_drawn)
        return;
    choose_record(ycsb, terminal);
    if (operation != YCSB_READ || ycsb->params.verify_reads)
        own->key_hash = lg_ycsb_key_hash(&ycsb->values, own->key, own->key_length);
    if (!ycsb->params.readallfields && operation != YCSB_UPDATE && operation != YCSB_INSERT)
        own->read_field = draw_field(ycsb, &terminal->random);
    if (operation == YCSB_SCAN) {
        own->length = lg_ycsb_scan_length(&ycsb->keys, &terminal->random);
        terminal->values[YCSB_LENGTH].integer = own->length;
    } else if (operation != YCSB_READ) {
        bool all = ycsb->params.writeallfields || operation == YCSB_INSERT;

        one = all ? -1 : draw_field(ycsb, &terminal->random);
        own->written_field = one;
        make_values(ycsb, terminal, operation == YCSB_INSERT ? YCSB_INSERT : YCSB_UPDATE, one);
    }
}

/* ---- steps --------------------------------------------------------------------- */

/* The next call is one of `call`'s statements. */
static enum lg_verdict execute(struct ycsb *ycsb, struct lg_terminal *terminal, int call)
{
    struct own *own = own_of(terminal);
    bool reads = call == YCSB_READ || call == YCSB_SCAN;
    int field = reads ? own->read_field : own->written_field;

    terminal->call = call;
    terminal->text = ycsb->uses[call].list ? field : 0;
    terminal->values[YCSB_FIELD].integer = field;
    terminal->reader = reads && ycsb->params.verify_reads ? &own->reader : NULL;
    own->rows = 0;
    own->last_length = own->key_length;
    memcpy(own->last, own->key, own->key_length);
    return LG_EXECUTE;
}

static enum lg_verdict begin_calls(struct ycsb *ycsb, struct lg_terminal *terminal)
{
    struct own *own = own_of(terminal);
    bool pair = terminal->operation == YCSB_READ_MODIFY_WRITE;

    own->modifying = own->not_found = false;
    own->wrong = NULL;
    return execute(ycsb, terminal, pair ? YCSB_READ : terminal->operation);
}

static enum lg_verdict wrong(struct lg_terminal *terminal, const char *words)
{
    struct own *own = own_of(terminal);

    say(own, own->key, own->key_length, words);
    terminal->wrong = own->wrong;
    return LG_WRONG;
}

/* Of rows that were asked for. */
static enum lg_verdict judge_rows(struct lg_terminal *terminal, const struct lg_result *result)
{
    struct own *own = own_of(terminal);
    size_t most = terminal->operation == YCSB_SCAN ? (size_t)own->length : 1;

    if (own->wrong)
        return wrong(terminal, own->wrong);
    if (result->rows > most)
        return wrong(terminal, "more rows came than were asked for");
    return result->rows ? LG_DONE : LG_NOT_FOUND;
}

static enum lg_verdict judge_insert(struct ycsb *ycsb, struct lg_terminal *terminal,
                                    const struct lg_result *result)
{
    int64_t number = own_of(terminal)->number - ycsb->params.recordcount;

    if (result->affected == 0)
        return wrong(terminal, "the insert has stored nothing");
    if (!lg_ycsb_inserts_acknowledge(ycsb->inserts, number))
        return wrong(terminal, "a million inserts behind one that has no answer");
    return LG_DONE;
}

static enum lg_verdict ycsb_step(void *self, struct lg_terminal *terminal,
                                 const struct lg_result *result)
{
    struct ycsb *ycsb = self;
    struct own *own = own_of(terminal);
    enum lg_verdict verdict;

    if (!result)
        return begin_calls(ycsb, terminal);
    switch (terminal->operation) {
    case YCSB_INSERT:
        return judge_insert(ycsb, terminal, result);
    case YCSB_READ_MODIFY_WRITE:
        if (own->modifying)
            return result->affected == 0 || own->not_found ? LG_NOT_FOUND : LG_DONE;
        verdict = judge_rows(terminal, result);
        if (verdict == LG_WRONG)
            return verdict;
        own->not_found = verdict == LG_NOT_FOUND;
        own->modifying = true;
        return execute(ycsb, terminal, YCSB_UPDATE);
    case YCSB_UPDATE:
        return result->affected == 0 ? LG_NOT_FOUND : LG_DONE;
    default:
        return judge_rows(terminal, result);
    }
}

/* ---- result -------------------------------------------------------------------- */

static void add_key_counts(const struct ycsb *ycsb, json_t *result)
{
    size_t most = (size_t)ycsb->params.count_keys, count;
    struct lg_ycsb_counts **counts = lg_allocate(ycsb->own_count, sizeof *counts);
    struct lg_ycsb_count *hottest = lg_allocate(most, sizeof *hottest);
    json_t *keys = json_array();
    uint64_t draws = 0;

    for (size_t i = 0; i < ycsb->own_count; i++) {
        counts[i] = ycsb->owns[i]->counts;
        draws += counts[i]->draws;
    }
    count = lg_ycsb_hottest(counts, ycsb->own_count, hottest, most);
    for (size_t i = 0; i < count; i++) {
        char key[YCSB_KEY_BYTES];
        size_t length = lg_ycsb_key(&ycsb->params, hottest[i].key, key);

        json_array_append_new(keys, json_pack("{s:s%, s:I, s:I}", "key", key, length, "number",
                                              (json_int_t)hottest[i].key, "count",
                                              (json_int_t)hottest[i].times));
    }
    json_object_set_new(result, "key_counts", keys);
    json_object_set_new(result, "draws", json_integer((json_int_t)draws));
    free(hottest);
    free(counts);
}

static void ycsb_finish(void *self, json_t *result)
{
    const struct ycsb *ycsb = self;

    json_object_set_new(result, "inserted",
                        json_integer((json_int_t)lg_ycsb_inserts_done(ycsb->inserts)));
    json_object_set_new(result, "inserts_begun",
                        json_integer((json_int_t)atomic_load(&ycsb->inserts->begun)));
    if (ycsb->params.count_keys)
        add_key_counts(ycsb, result);
}

const struct lg_workload lg_ycsb = {
    .name = "ycsb",
    .operations = operations,
    .operation_count = YCSB_OPERATIONS,
    .terminal_bytes = sizeof(struct own *),
    .open = ycsb_open,
    .close = ycsb_close,
    .texts = ycsb_texts,
    .prepare = ycsb_prepare,
    .terminal = ycsb_terminal,
    .begin = ycsb_begin,
    .step = ycsb_step,
    .finish = ycsb_finish,
    .load = lg_ycsb_load,
    .verify = lg_ycsb_verify,
};

/*
 * What a terminal asks for next (everything random is drawn here), and whether what comes back is
 * as it was written.
 */
#include "ycsb.h"

/* ---- rows ---------------------------------------------------------------------- */

static void say(struct lg_ycsb_terminal *own, const char *key, size_t length, const char *wrong)
{
    if (own->wrong)
        return;
    snprintf(own->words, sizeof own->words, "record %.*s: %s", (int)length, key, wrong);
    own->wrong = own->words;
}

/* The field that a statement's rows have alone; -1 where they have all. */
static int one_field(const struct lg_ycsb_terminal *own, int operation)
{
    return own->ycsb->uses[operation].list ? own->read_field : -1;
}

/* A row of a read: the fields, or the key and these. */
static void read_row(struct lg_ycsb_terminal *own, const struct lg_cell *cells, size_t columns)
{
    int one = one_field(own, YCSB_READ);
    size_t fields = one < 0 ? (size_t)own->ycsb->params.fieldcount : 1;
    bool keyed = own->ycsb->values.key_value || columns == fields + 1;
    const char *wrong;

    if (keyed && (columns == 0 || cells[0].length != own->key_length ||
                  memcmp(cells[0].text, own->key, own->key_length) != 0)) {
        say(own, own->key, own->key_length, "the server returned another record in its place");
        return;
    }
    wrong = lg_ycsb_check(&own->ycsb->values, own->key_hash, cells + keyed, columns - keyed, one,
                          NULL);
    if (wrong)
        say(own, own->key, own->key_length, wrong);
}

/* A row of a scan: the key and the fields. */
static void scan_row(struct lg_ycsb_terminal *own, const struct lg_cell *cells, size_t columns)
{
    size_t length = columns && cells[0].text ? cells[0].length : 0;
    const struct lg_ycsb_values *values = &own->ycsb->values;
    const char *wrong;
    int order;

    if (length == 0 || length > YCSB_KEY_BYTES) {
        say(own, own->key, own->key_length, "a row of the scan from it does not begin with a key");
        return;
    }
    order = lg_ycsb_compare(cells[0].text, length, own->last, own->last_length);
    if (own->rows == 1 ? order < 0 : order <= 0) {
        say(own, cells[0].text, length, "the scan came to it out of its order");
        return;
    }
    memcpy(own->last, cells[0].text, length);
    own->last_length = length;
    wrong = lg_ycsb_check(values, lg_ycsb_key_hash(values, cells[0].text, length), cells + 1,
                          columns - 1, one_field(own, YCSB_SCAN), NULL);
    if (wrong)
        say(own, cells[0].text, length, wrong);
}

static void take_row(void *context, const struct lg_cell *cells, size_t columns)
{
    struct lg_terminal *terminal = context;
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);

    own->rows++;
    if (!own->wrong)
        (terminal->operation == YCSB_SCAN ? scan_row : read_row)(own, cells, columns);
}

/* ---- operations ---------------------------------------------------------------- */

static void remember(struct lg_ycsb *ycsb, struct lg_ycsb_terminal *own)
{
    pthread_mutex_lock(&ycsb->lock);
    if (ycsb->own_count == ycsb->own_room) {
        ycsb->own_room = ycsb->own_room ? 2 * ycsb->own_room : 64;
        ycsb->owns = tb_grow(ycsb->owns, ycsb->own_count, ycsb->own_room, sizeof *ycsb->owns);
    }
    ycsb->owns[ycsb->own_count++] = own;
    pthread_mutex_unlock(&ycsb->lock);
}

void lg_ycsb_terminal_open(void *self, struct lg_terminal *terminal)
{
    struct lg_ycsb *ycsb = self;
    const struct lg_ycsb_params *params = &ycsb->params;
    struct lg_ycsb_terminal *own = tb_allocate(1, sizeof *own);
    struct lg_ycsb_uses any = {false};

    for (int i = 0; i < YCSB_OPERATIONS; i++) {
        any.value |= ycsb->uses[i].value;
        any.record |= ycsb->uses[i].record;
        any.change |= ycsb->uses[i].change;
        any.fields |= ycsb->uses[i].fields;
    }
    *(struct lg_ycsb_terminal **)terminal->own = own;
    own->ycsb = ycsb;
    own->read_field = -1;
    own->reader = (struct lg_reader){take_row, terminal};
    lg_ycsb_chooser_open(&own->chooser, &ycsb->keys);
    if (lg_ycsb_updates(params))
        own->updated = tb_allocate(1, sizeof *own->updated);
    if (any.fields || any.value)
        own->fields = tb_allocate((size_t)params->fieldcount * (size_t)params->fieldlength +
                                  YCSB_VALUE_SLACK, 1);
    if (any.record)
        own->record = tb_allocate(lg_ycsb_record_bytes(params), 1);
    if (any.change)
        own->change = tb_allocate(lg_ycsb_record_bytes(params), 1);
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
static void make_values(struct lg_ycsb *ycsb, struct lg_terminal *terminal, int writer, int one)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    const struct lg_ycsb_uses *uses = &ycsb->uses[writer];
    /* The n-th writing of this terminal; no two of a run have the same version. */
    uint64_t writing = own->writes++ * ycsb->terminals + terminal->number;
    uint64_t version = writer == YCSB_INSERT ? lg_ycsb_inserted_version(writing)
                                             : lg_ycsb_updated_version(writing);
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

static int draw_field(const struct lg_ycsb *ycsb, struct tb_random *random)
{
    return (int)tb_random_between(random, 0, ycsb->params.fieldcount - 1);
}

static void choose_record(struct lg_ycsb *ycsb, struct lg_terminal *terminal)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);

    own->number = terminal->operation == YCSB_INSERT
                      ? ycsb->params.recordcount + lg_ycsb_inserts_begin(ycsb->inserts)
                      : lg_ycsb_choose(&ycsb->keys, &own->chooser, &terminal->random);
    own->key_length = lg_ycsb_key(&ycsb->params, own->number, own->key);
    terminal->values[YCSB_KEY].length = own->key_length;
}

void lg_ycsb_begin(void *self, struct lg_terminal *terminal)
{
    struct lg_ycsb *ycsb = self;
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    double fraction = tb_random_fraction(&terminal->random);
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
static enum lg_status execute(struct lg_ycsb *ycsb, struct lg_terminal *terminal, int call)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    bool reads = call == YCSB_READ || call == YCSB_SCAN;
    int field = reads ? own->read_field : own->written_field;

    terminal->call = call;
    terminal->text = ycsb->uses[call].list ? field : 0;
    terminal->values[YCSB_FIELD].integer = field;
    terminal->reader = reads && ycsb->params.verify_reads ? &own->reader : NULL;
    own->rows = 0;
    if (call == YCSB_SCAN) {
        own->last_length = own->key_length;
        memcpy(own->last, own->key, own->key_length);
    }
    return LG_EXECUTE;
}

static enum lg_status begin_calls(struct lg_ycsb *ycsb, struct lg_terminal *terminal)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    bool pair = terminal->operation == YCSB_READ_MODIFY_WRITE;

    own->modifying = own->not_found = false;
    own->wrong = NULL;
    return execute(ycsb, terminal, pair ? YCSB_READ : terminal->operation);
}

static enum lg_status wrong(struct lg_terminal *terminal, const char *words)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);

    say(own, own->key, own->key_length, words);
    terminal->wrong = own->wrong;
    return LG_WRONG;
}

/* Of requested rows. */
static enum lg_status check_rows(struct lg_terminal *terminal, const struct lg_result *result)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    size_t most = terminal->operation == YCSB_SCAN ? (size_t)own->length : 1;

    if (own->wrong)
        return wrong(terminal, own->wrong);
    if (result->rows > most)
        return wrong(terminal, "the server returned more rows than requested");
    return result->rows ? LG_DONE : LG_NOT_FOUND;
}

static enum lg_status check_insert(struct lg_ycsb *ycsb, struct lg_terminal *terminal,
                                    const struct lg_result *result)
{
    int64_t number = lg_ycsb_own(terminal)->number - ycsb->params.recordcount;

    if (result->affected == 0)
        return wrong(terminal, "the insert has stored nothing");
    if (!lg_ycsb_inserts_acknowledge(ycsb->inserts, number))
        return wrong(terminal, "a million inserts after one that has no answer");
    return LG_DONE;
}

static enum lg_status check_update(struct lg_terminal *terminal, const struct lg_result *result)
{
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    int field = own->written_field;

    if (result->affected == 0)
        return LG_NOT_FOUND;
    if (field < 0) /* all were written: one of them in turn */
        field = (int)(own->writes % (uint64_t)own->ycsb->params.fieldcount);
    lg_ycsb_updated_add(own->updated, own->key_hash, field);
    return own->not_found ? LG_NOT_FOUND : LG_DONE;
}

enum lg_status lg_ycsb_step(void *self, struct lg_terminal *terminal,
                             const struct lg_result *result)
{
    struct lg_ycsb *ycsb = self;
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);
    enum lg_status status;

    if (!result)
        return begin_calls(ycsb, terminal);
    switch (terminal->operation) {
    case YCSB_INSERT:
        return check_insert(ycsb, terminal, result);
    case YCSB_READ_MODIFY_WRITE:
        if (own->modifying)
            return check_update(terminal, result);
        status = check_rows(terminal, result);
        if (status == LG_WRONG)
            return status;
        own->not_found = status == LG_NOT_FOUND;
        own->modifying = true;
        return execute(ycsb, terminal, YCSB_UPDATE);
    case YCSB_UPDATE:
        return check_update(terminal, result);
    default:
        return check_rows(terminal, result);
    }
}

/* The calls of an operation, and whether what comes back is as it was written. */
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

void lg_ycsb_read_row(void *context, const struct lg_cell *cells, size_t columns)
{
    struct lg_terminal *terminal = context;
    struct lg_ycsb_terminal *own = lg_ycsb_own(terminal);

    own->rows++;
    if (!own->wrong)
        (terminal->operation == YCSB_SCAN ? scan_row : read_row)(own, cells, columns);
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

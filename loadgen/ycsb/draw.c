/* What a terminal asks for next: everything random is drawn here. */
#include "ycsb.h"

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

static bool uses_any(const struct lg_ycsb *ycsb, size_t offset)
{
    for (int i = 0; i < YCSB_OPERATIONS; i++)
        if (*((const bool *)((const char *)&ycsb->uses[i] + offset)))
            return true;
    return false;
}

void lg_ycsb_terminal_open(void *self, struct lg_terminal *terminal)
{
    struct lg_ycsb *ycsb = self;
    const struct lg_ycsb_params *params = &ycsb->params;
    struct lg_ycsb_terminal *own = tb_allocate(1, sizeof *own);

    *(struct lg_ycsb_terminal **)terminal->own = own;
    own->ycsb = ycsb;
    own->read_field = -1;
    own->reader = (struct lg_reader){lg_ycsb_read_row, terminal};
    lg_ycsb_chooser_open(&own->chooser, &ycsb->keys);
    if (lg_ycsb_updates(params))
        own->updated = tb_allocate(1, sizeof *own->updated);
    if (uses_any(ycsb, offsetof(struct lg_ycsb_uses, fields)) ||
        uses_any(ycsb, offsetof(struct lg_ycsb_uses, value)))
        own->fields = tb_allocate((size_t)params->fieldcount * (size_t)params->fieldlength +
                                  YCSB_VALUE_SLACK, 1);
    if (uses_any(ycsb, offsetof(struct lg_ycsb_uses, record)))
        own->record = tb_allocate(lg_ycsb_record_bytes(params), 1);
    if (uses_any(ycsb, offsetof(struct lg_ycsb_uses, change)))
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

    if (terminal->operation == YCSB_INSERT) {
        own->number = ycsb->params.recordcount + lg_ycsb_inserts_begin(ycsb->inserts);
    } else {
        own->number = lg_ycsb_choose(&ycsb->keys, &own->chooser, &terminal->random);
    }
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

/*
 * YCSB's core workload: what its statements may use, what is opened and what is reported.
 *
 * Everything random is drawn in `begin` (terminal.c); of the values only those are made that
 * the operation's statement uses. Read-modify-write is two calls, the statements
 * of read and of update, and counts once.
 */
#include "ycsb.h"

#include "../spec.h"

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
_Static_assert(YCSB_FIELD0 + YCSB_MAX_FIELDS < LG_MAX_VALUES, "space for a NULL name at the end");

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

/* ---- opening ------------------------------------------------------------------- */

static void set_mix(struct lg_ycsb *ycsb, json_t *notes)
{
    double total = 0, so_far = 0;
    json_t *mix = json_object();

    for (int i = 0; i < YCSB_OPERATIONS; i++)
        total += ycsb->params.proportions[i];
    for (int i = 0; i < YCSB_OPERATIONS; i++) {
        so_far += ycsb->params.proportions[i] / total;
        ycsb->mix[i] = so_far;
        if (ycsb->params.proportions[i] > 0)
            json_object_set_new(mix, operations[i].name,
                                json_real(ycsb->params.proportions[i] / total));
    }
    /* Rounded or not, the last one that is requested at all takes what is left. */
    for (int i = YCSB_OPERATIONS - 1; i >= 0; i--) {
        ycsb->mix[i] = 1;
        if (ycsb->params.proportions[i] > 0)
            break;
    }
    json_object_set_new(notes, "operations_mix", mix);
}

static void set_notes(const struct lg_ycsb *ycsb, json_t *notes)
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

static void *ycsb_open(const struct lg_opening *opening, struct tb_error *error)
{
    struct lg_ycsb *ycsb = tb_allocate(1, sizeof *ycsb);

    if (lg_ycsb_params_read(&ycsb->params, opening->params, error) &&
        (ycsb->params.proportions[YCSB_INSERT] == 0 || opening->alone || opening->shared ||
         tb_fail(error, "shared: processes that insert need a common file")))
        ycsb->inserts = lg_ycsb_inserts_open(opening->shared, error);
    if (!ycsb->inserts) {
        free(ycsb);
        return NULL;
    }
    lg_ycsb_values_open(&ycsb->values, &ycsb->params);
    lg_ycsb_keys_open(&ycsb->keys, &ycsb->params, ycsb->inserts);
    ycsb->terminals = opening->terminals;
    ycsb->values.key_value = opening->key_value;
    pthread_mutex_init(&ycsb->lock, NULL);
    set_mix(ycsb, opening->notes);
    set_notes(ycsb, opening->notes);
    return ycsb;
}

static void ycsb_close(void *self)
{
    struct lg_ycsb *ycsb = self;

    for (size_t i = 0; i < ycsb->own_count; i++) {
        struct lg_ycsb_terminal *own = ycsb->owns[i];

        free(own->updated);
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
    const struct lg_ycsb_params *params = &((struct lg_ycsb *)self)->params;
    bool modifies = params->proportions[YCSB_READ_MODIFY_WRITE] > 0;
    bool paired = operation == YCSB_READ || operation == YCSB_UPDATE;
    bool all = operation == YCSB_UPDATE ? params->writeallfields : params->readallfields;

    if (operation == YCSB_READ_MODIFY_WRITE ||
        !(params->proportions[operation] > 0 || (paired && modifies)))
        return 0;
    return all || operation == YCSB_INSERT ? 1 : (size_t)params->fieldcount;
}

static bool ycsb_prepare(void *self, const struct lg_statements *statements,
                         struct tb_error *error)
{
    struct lg_ycsb *ycsb = self;

    for (int operation = 0; operation < YCSB_OPERATIONS; operation++) {
        struct lg_ycsb_uses *uses = &ycsb->uses[operation];
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
                if (value >= YCSB_FIELD0 + ycsb->params.fieldcount)
                    return tb_fail(error, "statements.%s: no parameter :field%d (fieldcount is %d)",
                                   statement->name, value - YCSB_FIELD0, (int)ycsb->params.fieldcount);
                if (value == YCSB_VALUE && ycsb->params.writeallfields)
                    return tb_fail(error, "statements.%s: has no :value with writeallfields",
                                   statement->name);
            }
        }
    }
    return true;
}

/* ---- result -------------------------------------------------------------------- */

static void add_updated(const struct lg_ycsb *ycsb, json_t *result)
{
    struct lg_ycsb_updated *updated = tb_allocate(1, sizeof *updated);

    for (size_t i = 0; i < ycsb->own_count; i++)
        lg_ycsb_updated_merge(updated, ycsb->owns[i]->updated);
    json_object_set_new(result, "updated", lg_ycsb_updated_json(updated));
    free(updated);
}

static void ycsb_finish(void *self, json_t *result)
{
    const struct lg_ycsb *ycsb = self;

    json_object_set_new(result, "inserted", json_integer(lg_ycsb_inserts_done(ycsb->inserts)));
    json_object_set_new(result, "inserts_begun", tb_integer(atomic_load(&ycsb->inserts->begun)));
    if (lg_ycsb_updates(&ycsb->params))
        add_updated(ycsb, result);
}

const struct lg_workload lg_ycsb = {
    .name = "ycsb",
    .operations = operations,
    .operation_count = YCSB_OPERATIONS,
    .terminal_bytes = sizeof(struct lg_ycsb_terminal *),
    .open = ycsb_open,
    .close = ycsb_close,
    .texts = ycsb_texts,
    .prepare = ycsb_prepare,
    .terminal = lg_ycsb_terminal_open,
    .begin = lg_ycsb_begin,
    .step = lg_ycsb_step,
    .finish = ycsb_finish,
    .load = lg_ycsb_load,
    .verify = lg_ycsb_verify,
};

/*
 * TPC-C as a workload: which transaction a terminal does next, and when.
 *
 * The five transactions are one statement each; inputs.c draws what they are called with,
 * answers.c validates the answers, load.c fills the tables.
 */
#include "tpcc.h"

#include <math.h>

/* HammerDB builds its customers' names, and looks for them, with this constant. */
enum { HAMMERDB_C_LOAD = 123 };

/* Keying time and mean of the think time (clause 5.2.5.7), in seconds. */
static const struct {
    uint64_t keying_s;
    double think_s;
} pace[TPCC_TRANSACTIONS] = {
    [TPCC_NEW_ORDER] = {18, 12}, [TPCC_PAYMENT] = {3, 12},   [TPCC_ORDER_STATUS] = {2, 10},
    [TPCC_DELIVERY] = {2, 5},    [TPCC_STOCK_LEVEL] = {2, 5},
};

static void *tpcc_open(const struct lg_opening *opening, struct tb_error *error)
{
    struct lg_tpcc *tpcc = tb_allocate(1, sizeof *tpcc);
    int32_t c_load;

    if (!lg_tpcc_params_read(&tpcc->params, opening->params, error)) {
        free(tpcc);
        return NULL;
    }
    c_load = tpcc->params.hammerdb ? HAMMERDB_C_LOAD : lg_tpcc_c_load(tpcc->params.data_seed);
    tpcc->constants = lg_tpcc_c_run(opening->seed, c_load);
    json_object_set_new(opening->notes, "c_load", json_integer(c_load));
    json_object_set_new(opening->notes, "c_run",
                        json_pack("{s:i, s:i, s:i}", "c_last", (int)tpcc->constants.c_last, "c_id",
                                  (int)tpcc->constants.c_id, "ol_i_id",
                                  (int)tpcc->constants.ol_i_id));
    return tpcc;
}

static void tpcc_terminal(void *self, struct lg_terminal *terminal)
{
    const struct lg_tpcc *tpcc = self;
    struct lg_tpcc_terminal *own = terminal->own;

    own->dealt = TPCC_DECK;
    if (tpcc->params.fixed_home) {
        own->home_w = (int32_t)(terminal->number / TPCC_DISTRICTS %
                                (uint32_t)tpcc->params.warehouses) + 1;
        own->home_d = (int32_t)(terminal->number % TPCC_DISTRICTS) + 1;
    }
}

static void shuffle_deck(struct lg_tpcc_terminal *own, struct tb_random *random)
{
    static const uint8_t cards[TPCC_DECK] = {
        TPCC_NEW_ORDER,    TPCC_NEW_ORDER, TPCC_NEW_ORDER, TPCC_NEW_ORDER, TPCC_NEW_ORDER,
        TPCC_NEW_ORDER,    TPCC_NEW_ORDER, TPCC_NEW_ORDER, TPCC_NEW_ORDER, TPCC_NEW_ORDER,
        TPCC_PAYMENT,      TPCC_PAYMENT,   TPCC_PAYMENT,   TPCC_PAYMENT,   TPCC_PAYMENT,
        TPCC_PAYMENT,      TPCC_PAYMENT,   TPCC_PAYMENT,   TPCC_PAYMENT,   TPCC_PAYMENT,
        TPCC_ORDER_STATUS, TPCC_DELIVERY,  TPCC_STOCK_LEVEL};

    memcpy(own->deck, cards, sizeof cards);
    for (int i = TPCC_DECK - 1; i > 0; i--) {
        int j = (int)tb_random_between(random, 0, i);
        uint8_t card = own->deck[i];

        own->deck[i] = own->deck[j];
        own->deck[j] = card;
    }
    own->dealt = 0;
}

static int draw_transaction(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    struct lg_tpcc_terminal *own = terminal->own;

    if (tpcc->params.deck) {
        if (own->dealt == TPCC_DECK)
            shuffle_deck(own, &terminal->random);
        return own->deck[own->dealt++];
    }

    double fraction = tb_random_fraction(&terminal->random);
    int transaction = 0;

    while (fraction > tpcc->params.weights[transaction])
        transaction++;
    return transaction;
}

/* Negative exponential, cut off at ten times the mean (clause 5.2.5.4). */
static uint64_t think_ns(double drawn, double mean_s)
{
    double means = -log(drawn);

    return (uint64_t)((means < 10 ? means : 10) * mean_s * 1e9);
}

static void tpcc_begin(void *self, struct lg_terminal *terminal)
{
    const struct lg_tpcc *tpcc = self;

    terminal->operation = draw_transaction(tpcc, terminal);
    terminal->keying_ns = pace[terminal->operation].keying_s * TB_SECOND;
    /* Drawn in any case: a terminal asks for the same with and without think times. */
    double drawn = tb_random_fraction(&terminal->random);
    if (terminal->thinks)
        terminal->think_ns = think_ns(drawn, pace[terminal->operation].think_s);
    lg_tpcc_draw_inputs(tpcc, terminal);
}

static enum lg_status tpcc_step(void *self, struct lg_terminal *terminal,
                                 const struct lg_result *result)
{
    const struct lg_tpcc *tpcc = self;

    if (!result)
        return LG_EXECUTE;
    /* HammerDB's procedures decide themselves what is rolled back, and do not say it. */
    return tpcc->params.hammerdb ? LG_DONE : lg_tpcc_check(terminal, result);
}

static void tpcc_journal(void *self, struct lg_terminal *terminal, const struct lg_result *result,
                         struct tb_text *line)
{
    const struct lg_tpcc *tpcc = self;

    if (!tpcc->params.hammerdb)
        lg_tpcc_journal(terminal, result, line);
}

const struct lg_workload lg_tpcc = {
    .name = "tpcc",
    .operations = lg_tpcc_operations,
    .operation_count = TPCC_TRANSACTIONS,
    .terminal_bytes = sizeof(struct lg_tpcc_terminal),
    .open = tpcc_open,
    .close = free,
    .terminal = tpcc_terminal,
    .begin = tpcc_begin,
    .step = tpcc_step,
    .journal = tpcc_journal,
    .load = lg_tpcc_load,
};

/*
 * The parts of TPC-C's workload: rules.c is what population and transactions share (numbers, skew,
 * names), params.c reads the spec, tpcc.c opens a run, inputs.c draws, answers.c validates, load.c
 * fills the tables. Clauses are those of the TPC-C specification, revision 5.11.
 */
#pragma once

#include "../workload.h"

/* Cardinalities (clause 1.2.1, 4.3.3.1): per warehouse, per district. */
enum {
    TPCC_ITEMS = 100000,
    TPCC_STOCK = TPCC_ITEMS,
    TPCC_DISTRICTS = 10,
    TPCC_CUSTOMERS = 3000,
    TPCC_ORDERS = 3000,
    TPCC_FIRST_UNDELIVERED = 2101, /* orders from here on wait in new_order */
    TPCC_MIN_LINES = 5,
    TPCC_MAX_LINES = 15,
    TPCC_CARRIERS = 10,
    TPCC_MAX_WAREHOUSES = 20000000, /* w_id * 10 still fits 32 bits with room to spare */
};

/* The longest last name is three times the longest syllable (5), and a terminating zero. */
enum { TPCC_LAST_NAMES = 1000, TPCC_LAST_NAME_BYTES = 16 };

/* The run-time constants C of NURand (clause 2.1.6), one a field. */
struct lg_tpcc_constants {
    int32_t c_last;  /* A = 255 */
    int32_t c_id;    /* A = 1023 */
    int32_t ol_i_id; /* A = 8191 */
};

/* NURand(A, x, y) with the constant C (clause 2.1.6); A is a power of two less one. */
int32_t lg_tpcc_nurand(struct tb_random *random, int32_t a, int32_t x, int32_t y, int32_t c);

int32_t lg_tpcc_draw_customer(struct tb_random *random, const struct lg_tpcc_constants *c);
int32_t lg_tpcc_draw_item(struct tb_random *random, const struct lg_tpcc_constants *c);
int32_t lg_tpcc_draw_last_name(struct tb_random *random, int32_t c_last);

/* C-Load: the constant by which the customers of this data set got their names. */
int32_t lg_tpcc_c_load(uint64_t data_seed);
/* Whether C-Run may stand against C-Load (clause 2.1.6.1). */
bool lg_tpcc_c_delta_allowed(int32_t c_load, int32_t c_run);
/* The constants of a run: the same in each process that has the run's seed. */
struct lg_tpcc_constants lg_tpcc_c_run(uint64_t seed, int32_t c_load);

/* Writes the name of number 0 … 999 (clause 4.3.2.3), zero-terminated; returns its length. */
size_t lg_tpcc_last_name(int32_t number, char name[TPCC_LAST_NAME_BYTES]);

enum lg_tpcc_transaction {
    TPCC_NEW_ORDER,
    TPCC_PAYMENT,
    TPCC_ORDER_STATUS,
    TPCC_DELIVERY,
    TPCC_STOCK_LEVEL,
    TPCC_TRANSACTIONS,
};

/*
 * {"warehouses": W, "data_seed": S, "home": "all"|"fixed", "mix": "deck"|{name: weight},
 *  "procedures": "own"|"hammerdb"}; all but the first two may be left out.
 */
struct lg_tpcc_params {
    int32_t warehouses;
    uint64_t data_seed;
    /* Each terminal keeps its warehouse (clause 2.4.1.1); else every transaction draws one. */
    bool fixed_home;
    bool deck;                          /* clause 5.2.4.2's deck of cards; else `weights` */
    double weights[TPCC_TRANSACTIONS];  /* cumulative, the last is 1 */
    /* HammerDB's procedures draw much themselves and do not return what ours do. */
    bool hammerdb;
};

/* Every error names the key. `params` may be NULL. */
bool lg_tpcc_params_read(struct lg_tpcc_params *read, const json_t *params,
                         struct tb_error *error);

/* Places of the values of each transaction, in the order in which they are offered. */
enum { NEW_ORDER_W, NEW_ORDER_D, NEW_ORDER_C, NEW_ORDER_OL_CNT, NEW_ORDER_ALL_LOCAL,
       NEW_ORDER_ROLLBACK, NEW_ORDER_WAREHOUSES, NEW_ORDER_ITEMS, NEW_ORDER_SUPPLY,
       NEW_ORDER_QUANTITIES };
enum { PAYMENT_W, PAYMENT_D, PAYMENT_C_W, PAYMENT_C_D, PAYMENT_C, PAYMENT_C_LAST,
       PAYMENT_BY_NAME, PAYMENT_AMOUNT, PAYMENT_WAREHOUSES };
enum { ORDER_STATUS_W, ORDER_STATUS_D, ORDER_STATUS_C, ORDER_STATUS_C_LAST,
       ORDER_STATUS_BY_NAME };
enum { DELIVERY_W, DELIVERY_CARRIER };
enum { STOCK_LEVEL_W, STOCK_LEVEL_D, STOCK_LEVEL_THRESHOLD };

extern const struct lg_operation lg_tpcc_operations[TPCC_TRANSACTIONS];

/* The deck of clause 5.2.4.2: ten New-Orders, ten Payments, one each of the others. */
enum { TPCC_DECK = 23 };

/* A workload opened for a run. */
struct lg_tpcc {
    struct lg_tpcc_params params;
    struct lg_tpcc_constants constants; /* C-Run */
};

/* What a terminal keeps of its own. The values of its transaction point into it. */
struct lg_tpcc_terminal {
    int32_t home_w, home_d; /* 0 where every transaction draws them */
    uint8_t deck[TPCC_DECK];
    uint8_t dealt; /* cards; all of them at first */
    int32_t items[TPCC_MAX_LINES], supply[TPCC_MAX_LINES], quantities[TPCC_MAX_LINES];
    char last_name[TPCC_LAST_NAME_BYTES];
    int64_t answer; /* o_id of New-Order, c_id of Payment: for the journal */
    char wrong[160];
};

/*
 * inputs.c: draws the values of the terminal's operation, which are what it enters (clauses 2.4.1,
 * 2.5.1, 2.6.1, 2.7.1, 2.8.1).
 */
void lg_tpcc_draw_inputs(const struct lg_tpcc *tpcc, struct lg_terminal *terminal);

/* answers.c: LG_DONE, LG_ROLLED_BACK, or LG_WRONG with terminal->wrong. */
enum lg_status lg_tpcc_check(struct lg_terminal *terminal, const struct lg_result *result);
/*
 * The journal's line of a transaction that was validated as LG_DONE; none for those that only
 * read. By line: "N w d o_id c_id ol_cnt", "P w d c_w c_d c_id amount_cents",
 * "D w carrier o1,…,o10" (0: the district had no order to deliver).
 */
void lg_tpcc_journal(const struct lg_terminal *terminal, const struct lg_result *result,
                     struct tb_text *line);

/*
 * load.c: lg_workload.load. `threads` of the spec write packages at the same time through the back
 * end's bulk functions. The tables are there and empty. Sets "rows" ({table: rows stored}) and
 * "notes" of the result.
 */
bool lg_tpcc_load(const struct lg_job *job, json_t *result, struct tb_error *error);

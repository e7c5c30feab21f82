/* The parts of TPC-C's workload: tpcc.c opens it, inputs.c draws, answers.c validates. */
#pragma once

#include "params.h"

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

/* The spec's workload.params for TPC-C, read and checked. */
#pragma once

#include "rules.h"

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

extern const char *const lg_tpcc_transaction_names[TPCC_TRANSACTIONS];

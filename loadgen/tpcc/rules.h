/*
 * What population and transactions of TPC-C share: its numbers, its skew and its names.
 * Clauses are those of the TPC-C specification, revision 5.11.
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

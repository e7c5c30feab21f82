/*
 * The initial database (clause 4.3.3.1): for each table, a function that writes the rows
 * of a range of warehouses.
 *
 * Rows depend on (data seed, table, warehouse) and on nothing else: not on threads, not
 * on which rows were written before. The date "given by the operating system" is one
 * fixed date, so that the same data are the same bytes.
 */
#pragma once

#include "rows.h"
#include "rules.h"

/* C_SINCE, H_DATE, O_ENTRY_D, and OL_DELIVERY_D of what is delivered. */
#define TPCC_ENTRY_DATE "2020-01-01 00:00:00"

struct lg_population {
    uint64_t seed;
    int32_t c_load;
    struct lg_alphabet alphabet;
};

void lg_population_init(struct lg_population *population, uint64_t data_seed);

struct lg_tpcc_table {
    const char *name;
    const char *columns;
    /* Writes the rows of warehouses first … last; of an item table, all rows. */
    void (*write)(const struct lg_population *population, struct lg_rows *rows, int32_t first,
                  int32_t last);
    bool once;       /* the table does not grow with the warehouses */
    int32_t package; /* warehouses that are loaded in one go */
    int64_t bytes;   /* text of one warehouse, about; of the whole table where `once` */
};

enum { TPCC_TABLES = 9 };
extern const struct lg_tpcc_table lg_tpcc_tables[TPCC_TABLES];

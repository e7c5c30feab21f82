/*
 * Rows of a bulk load: collected as text comes, sent a partition at a time.
 *
 * The rows of a call all have one partitioning value; those of a table that every partition has
 * as a whole go to all of them.
 */
#ifndef LOADGEN_VOLTDB_BULK_H
#define LOADGEN_VOLTDB_BULK_H

#include "loadgen_wire.h"

struct volt_bulk {
    const json_t *tables; /* of the connection */
    const char *table;
    struct {
        const char *name;
        enum volt_type type;
    } columns[LG_MAX_COLUMNS];
    size_t count;
    int partitioning;     /* the column that the table is partitioned by; -1 without one */
    int64_t partition;    /* its value in the rows that wait */
    struct tb_text rows;  /* those that wait */
    struct tb_text text;  /* one row */
    int64_t waiting, stored;
};

/* The table's columns must be `names`: "a, b, c". */
bool volt_bulk_begin(struct volt_bulk *bulk, const char *table, const char *names,
                     struct tb_error *error);
/* Whether the rows that wait are to be sent before this one, which has no newline, is added. */
bool volt_bulk_is_full(const struct volt_bulk *bulk, const char *row, size_t length);
bool volt_bulk_add(struct volt_bulk *bulk, const char *row, size_t length,
                   struct tb_error *error);
/* The call that stores the rows that wait. */
void volt_bulk_write_call(const struct volt_bulk *bulk, struct tb_text *out, int64_t handle);
/* They are stored. */
void volt_bulk_sent(struct volt_bulk *bulk);
void volt_bulk_free(struct volt_bulk *bulk);

#endif

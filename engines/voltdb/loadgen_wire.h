/*
 * VoltDB's wire protocol: big-endian messages after their length, values after their type.
 *
 * A writer appends to a tb_text. A reader goes over a message that is there as a whole; what
 * does not fit into it makes the reader fail, and everything read from then on is empty.
 */
#pragma once

#include "backend.h"

enum volt_type {
    VOLT_ARRAY = -99,
    VOLT_NULL = 1,
    VOLT_TINYINT = 3,
    VOLT_SMALLINT = 4,
    VOLT_INTEGER = 5,
    VOLT_BIGINT = 6,
    VOLT_STRING = 9,
    VOLT_TIMESTAMP = 11,
    VOLT_TABLE = 21,
    VOLT_DECIMAL = 22,
    VOLT_VARBINARY = 25,
};

enum {
    VOLT_LENGTH_BYTES = 4,
    VOLT_DECIMAL_PLACES = 12,
    VOLT_NUMBER_BYTES = 48, /* the text of any number, with its end */
};

/* ---- writing ------------------------------------------------------------------- */

void volt_put(struct tb_text *to, int64_t number, int bytes);
void volt_put_string(struct tb_text *to, const char *text, size_t length);
/* Begins a message; volt_end_message writes its length where it began. */
void volt_begin_message(struct tb_text *to);
void volt_end_message(struct tb_text *to);

/* ---- calls of procedures --------------------------------------------------------- */

/*
 * A statement: a call of a procedure with its parameters.
 *
 *   StockLevel (:w_id, :d_id, :threshold)
 *   Payment when :w_id = :c_w_id else PaymentAcross (:w_id, :d_id, …)
 *
 * Of two procedures the first is called where both values of the condition are equal, or its
 * only one is not 0: so transactions within one partition differ from those over all. Parameters
 * are BIGINT, DECIMAL, STRING, or an array of INTEGER.
 */
struct volt_name {
    const char *text;
    size_t length;
};

struct volt_call {
    struct volt_name first, other; /* other.text is NULL without a condition */
    size_t conditions;             /* values of the condition: the first parameters */
};

/* Takes a statement apart; false with the error. */
bool volt_call_parse(struct volt_call *call, const struct lg_statement *statement,
                     struct tb_error *error);
/* Writes the message to `out`, from its start. */
void volt_call_write(const struct volt_call *call, const struct lg_statement *statement,
                     const struct lg_value *values, struct tb_text *out, int64_t handle);

/* ---- bulk loads ------------------------------------------------------------------ */

/*
 * Rows of a bulk load: collected as text comes, sent a partition at a time.
 *
 * The rows of a call all have one partitioning value; those of a table that every partition has
 * as a whole go to all of them.
 */
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

/* ---- reading ------------------------------------------------------------------- */

struct volt_reader {
    const char *at, *end;
    bool failed;
};

int64_t volt_get(struct volt_reader *reader, int bytes);
/* False, and *text is NULL, for a string that is NULL. */
bool volt_get_string(struct volt_reader *reader, const char **text, size_t *length);
void volt_skip(struct volt_reader *reader, int64_t bytes);
/*
 * A column of a row as text: strings where they are, numbers written to `room`, which has
 * VOLT_NUMBER_BYTES.
 */
struct lg_cell volt_get_cell(struct volt_reader *reader, enum volt_type type, char *room);

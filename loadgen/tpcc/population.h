/*
 * The initial database (clause 4.3.3.1), as text of bulk loads.
 *
 * Rows depend on (data seed, table, warehouse) and on nothing else: not on threads, not
 * on which rows were written before. The date "given by the operating system" is one
 * fixed date, so that the same data are the same bytes.
 *
 * The text is written by hand (rows.c): this is where the client's time goes. A buffer holds
 * whole rows and goes to the sink when the next row might not fit. Every lg_put_… writes one
 * field with the separator after it and returns where the next field goes; lg_row_end turns
 * the last separator into the end of the row. Nothing in TPC-C's data needs escaping.
 */
#pragma once

#include "tpcc.h"

/* The longest row (customer, under 800 bytes), and what a writer of strings runs over. */
enum { LG_ROW_BYTES = 1024 };

/* Takes whole rows; false stops the load. */
typedef bool (*lg_row_sink)(void *context, const char *rows, size_t length);

struct lg_rows {
    char *buffer;
    size_t capacity; /* ≥ LG_ROW_BYTES */
    size_t length;
    int64_t count;
    bool failed; /* the sink said no: what is still written goes nowhere */
    lg_row_sink sink;
    void *context;
};

/* Pairs of alphanumeric characters, 62 × 62: half the draws of single characters. */
struct lg_alphabet {
    char pairs[62 * 62][2];
};

void lg_alphabet_fill(struct lg_alphabet *alphabet);

/* Sends what is still in the buffer; false when the sink has said no. */
bool lg_rows_flush(struct lg_rows *rows);

/* `length` random characters; up to 9 more bytes after them are overwritten. */
char *lg_put_alphanumeric(char *at, struct tb_random *random, const struct lg_alphabet *alphabet,
                          size_t length);
char *lg_put_integer(char *at, int64_t number);
/* A number given in 10^-places, as a decimal number. Not negative. */
char *lg_put_decimal(char *at, int64_t scaled, int places);
/* `digits` decimal digits (even), with leading zeros and no separator after. */
char *lg_write_digits(char *at, uint64_t number, int digits);

static inline char *lg_row_begin(struct lg_rows *rows)
{
    if (rows->capacity - rows->length < LG_ROW_BYTES)
        lg_rows_flush(rows);
    return rows->buffer + rows->length;
}

static inline void lg_row_end(struct lg_rows *rows, char *at)
{
    at[-1] = '\n';
    rows->length = (size_t)(at - rows->buffer);
    rows->count++;
}

static inline char *lg_put_bytes(char *at, const char *bytes, size_t length)
{
    memcpy(at, bytes, length);
    at[length] = '\t';
    return at + length + 1;
}

/* A string known to the compiler. */
#define lg_put_literal(at, literal) lg_put_bytes((at), (literal), sizeof(literal) - 1)

/* C_SINCE, H_DATE, O_ENTRY_D, and OL_DELIVERY_D of what is delivered. */
#define TPCC_ENTRY_DATE "2020-01-01 00:00:00"

struct lg_population {
    uint64_t seed;
    int32_t c_load;
    struct lg_alphabet alphabet;
};

void lg_population_init(struct lg_population *population, uint64_t data_seed);

struct lg_tpcc_row;

struct lg_tpcc_table {
    const char *name;
    const char *columns;
    /* Writes the fields of a row. */
    char *(*put)(char *at, struct lg_tpcc_row *row);
    int stream;          /* of random numbers */
    int32_t districts;   /* of a warehouse; 1 where its rows belong to none */
    int32_t first, last; /* their rows by number */
    bool orders, lines;  /* a row is an order; each of its lines */
    bool once;       /* the table does not grow with the warehouses */
    int32_t package; /* warehouses that are loaded in one go */
    int64_t bytes;   /* text of one warehouse, about; of the whole table where `once` */
};

enum { TPCC_TABLES = 9 };
extern const struct lg_tpcc_table lg_tpcc_tables[TPCC_TABLES];

/* Writes the rows of warehouses first … last; of a table that is there `once`, all rows. */
void lg_tpcc_write(const struct lg_population *population, const struct lg_tpcc_table *table,
                   struct lg_rows *rows, int32_t first, int32_t last);

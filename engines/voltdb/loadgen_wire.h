/*
 * VoltDB's wire protocol: big-endian messages after their length, values after their type.
 *
 * A writer appends to a tb_text. A reader goes over a message that is there as a whole; what
 * does not fit into it makes the reader fail, and everything read from then on is empty.
 */
#ifndef LOADGEN_VOLTDB_WIRE_H
#define LOADGEN_VOLTDB_WIRE_H

#include "backend.h"

enum volt_type {
    VOLT_ARRAY = -99,
    VOLT_NULL = 1,
    VOLT_TINYINT = 3,
    VOLT_SMALLINT = 4,
    VOLT_INTEGER = 5,
    VOLT_BIGINT = 6,
    VOLT_FLOAT = 8,
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
/* A decimal number given in units of 10^-places. */
void volt_put_decimal(struct tb_text *to, int64_t number, int places);
void volt_put_null(struct tb_text *to, enum volt_type type);
/* Begins a message; volt_end_message writes its length where it began. */
void volt_begin_message(struct tb_text *to);
/* Writes the length of what follows `begin` into the four bytes before it. */
void volt_set_length(struct tb_text *to, size_t begin);
void volt_end_message(struct tb_text *to);
/* A call of `procedure` up to its parameters, `count` of them. */
void volt_begin_call(struct tb_text *to, const char *procedure, size_t length, int64_t handle,
                     int count);
void volt_put_parameter(struct tb_text *to, const struct lg_value *value);
/*
 * One column of a loaded row, from the text that COPY takes. False where it is no `type`.
 * `text` may be changed: escapes are resolved in place.
 */
bool volt_put_column(struct tb_text *to, enum volt_type type, char *text, size_t length);

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

#endif

/*
 * Values in the formats of PostgreSQL's parameters: binary if there is a format for the type here,
 * otherwise text, which every type reads.
 */
#ifndef POSTGRES_LOADGEN_VALUES_H
#define POSTGRES_LOADGEN_VALUES_H

#include "backend.h"

#include <libpq-fe.h>

enum { POSTGRES_TEXT_FORMAT = 0, POSTGRES_BINARY_FORMAT = 1 };

/* An upper bound on the bytes of `value` in either format; text is sent from its own place. */
size_t postgres_room_for(const struct lg_value *value);

/*
 * Writes a value that is neither NULL nor text to `to`, for a parameter of `type` (its number
 * in pg_type), and returns where it ends.
 */
char *postgres_write_value(char *to, Oid type, const struct lg_value *value, int *format);

#endif

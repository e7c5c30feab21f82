/*
 * Values in the formats of PostgreSQL's parameters: binary if there is a format for the type here,
 * otherwise text, which every type reads.
 */
#pragma once

#include "backend.h"

#include <libpq-fe.h>

enum { POSTGRES_TEXT_FORMAT = 0, POSTGRES_BINARY_FORMAT = 1 };

/* The parameters of one execution, as libpq takes them. */
struct postgres_parameters {
    const char *places[LG_MAX_PARAMETERS];
    int lengths[LG_MAX_PARAMETERS], formats[LG_MAX_PARAMETERS];
    char *scratch; /* the values that are not text, which is sent from its own place */
    size_t scratch_bytes;
};

/* `types`: of the statement's parameters, as numbers in pg_type. False: out of memory. */
bool postgres_write_parameters(struct postgres_parameters *parameters,
                               const struct lg_statement *statement, const Oid *types,
                               const struct lg_value *values);

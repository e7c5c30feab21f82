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
#ifndef LOADGEN_VOLTDB_CALL_H
#define LOADGEN_VOLTDB_CALL_H

#include "loadgen_wire.h"

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

#endif

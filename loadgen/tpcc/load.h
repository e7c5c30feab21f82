/* Task "load": the population goes into the tables through a back end's bulk functions. */
#ifndef LOADGEN_TPCC_LOAD_H
#define LOADGEN_TPCC_LOAD_H

#include "population.h"

/*
 * lg_workload.load: `threads` of the spec write packages at the same time. The tables
 * are there and empty. Sets "rows" ({table: rows stored}) and "notes" of the result.
 */
bool lg_tpcc_load(const struct lg_job *job, json_t *result, struct tb_error *error);

#endif

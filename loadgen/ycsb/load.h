/* Tasks "load" and "verify" of YCSB. */
#ifndef LOADGEN_YCSB_LOAD_H
#define LOADGEN_YCSB_LOAD_H

#include "../workload.h"

#define YCSB_TABLE "usertable"
#define YCSB_KEY_COLUMN "ycsb_key"

/* lg_workload.load: sets "rows" of the result. The table is there and empty. */
bool lg_ycsb_load(const struct lg_job *job, json_t *result, struct tb_error *error);
/* lg_workload.verify: sets "verified" of the result. */
bool lg_ycsb_verify(const struct lg_job *job, json_t *result, struct tb_error *error);

/* Places of what statements may use; the same in all operations. */
enum lg_ycsb_offer {
    YCSB_KEY,
    YCSB_LENGTH,
    YCSB_FIELD,
    YCSB_VALUE,
    YCSB_RECORD,
    YCSB_CHANGE,
    YCSB_FIELD0,
};

#endif

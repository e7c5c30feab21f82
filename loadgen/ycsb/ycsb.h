/*
 * The parts of YCSB's workload: ycsb.c opens it, terminal.c asks and answers for what came;
 * load.c and verify.c are its other tasks.
 */
#pragma once

#include "keys.h"
#include "values.h"

#define YCSB_TABLE "usertable"
#define YCSB_KEY_COLUMN "ycsb_key"

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

/* What a statement uses of the values that cost something to make. */
struct lg_ycsb_uses {
    bool value, record, change, fields;
    bool list; /* a text for each field */
};

struct lg_ycsb_terminal;

/* Opened. */
struct lg_ycsb {
    struct lg_ycsb_params params;
    struct lg_ycsb_values values;
    struct lg_ycsb_inserts *inserts;
    struct lg_ycsb_keys keys;
    double mix[YCSB_OPERATIONS]; /* cumulative, the last is 1 */
    struct lg_ycsb_uses uses[YCSB_OPERATIONS];
    uint32_t terminals;
    pthread_mutex_t lock; /* of what follows */
    struct lg_ycsb_terminal **owns;
    size_t own_count, own_room;
};

struct lg_ycsb_terminal {
    struct lg_ycsb *ycsb;
    struct lg_ycsb_chooser chooser;
    int64_t number;          /* of the record */
    uint64_t key_hash;
    int read_field, written_field; /* -1: all */
    int64_t length;          /* of a scan */
    uint64_t writes;         /* versions handed out */
    bool modifying;          /* read-modify-write: the read is done */
    bool not_found;
    struct lg_ycsb_updated *updated; /* acknowledged; NULL where there are no updates */
    char *fields, *record, *change; /* what is written */
    struct lg_reader reader;
    size_t rows;             /* that it has read */
    const char *wrong;
    char key[YCSB_KEY_BYTES], last[YCSB_KEY_BYTES];
    size_t key_length, last_length;
    char words[256];
};

/* The core keeps no more than a pointer for us. */
static inline struct lg_ycsb_terminal *lg_ycsb_own(const struct lg_terminal *terminal)
{
    return *(struct lg_ycsb_terminal **)terminal->own;
}

/* terminal.c: lg_workload.terminal, .begin and .step. */
void lg_ycsb_terminal_open(void *self, struct lg_terminal *terminal);
void lg_ycsb_begin(void *self, struct lg_terminal *terminal);
enum lg_status lg_ycsb_step(void *self, struct lg_terminal *terminal,
                             const struct lg_result *result);

/* load.c, lg_workload.load: sets "rows" of the result. The table is there and empty. */
bool lg_ycsb_load(const struct lg_job *job, json_t *result, struct tb_error *error);
/* verify.c, lg_workload.verify: sets "verified" of the result. */
bool lg_ycsb_verify(const struct lg_job *job, json_t *result, struct tb_error *error);

/*
 * What a workload is: what each terminal asks for next, and what it makes of the answer.
 *
 * A terminal is one emulated user. Its life:
 *
 *   (begin → keying time → step → execute → step … → LG_DONE → think time)*
 *
 * `begin` draws the next operation and everything random in it. The core submits the
 * statement that `step` names, on a free connection, and hands the result to the next
 * `step`, until that says LG_DONE. Latency of the operation: from its start (closed
 * loop), or from its intended start (open loop), to LG_DONE. A result with LG_RETRY never
 * reaches `step`: the core counts it and begins the operation again with the same values.
 */
#pragma once

#include "backend.h"

#define LG_MAX_VALUES 72
#define LG_MAX_OPERATIONS 8

enum lg_status {
    LG_EXECUTE,     /* submit `statement` with `values` */
    LG_DONE,        /* committed, or read: counts */
    LG_SKIPPED,     /* likewise, but there was not all to do that belongs to it: counts, and apart */
    LG_NOT_FOUND,   /* likewise, but the requested record did not exist: counts, and apart */
    LG_ROLLED_BACK, /* ended as the specification wants it to be: counted apart */
    LG_WRONG,       /* the answer cannot be right: the run fails with `wrong` */
};

struct lg_terminal {
    uint32_t number;      /* 0 … terminals of all processes - 1 */
    struct tb_random random;
    int operation;        /* index into the workload's operations */
    int call;             /* operation whose statement is next, `operation` itself where
                             `step` leaves it alone */
    int text;             /* which of that one's statements, 0 where `step` leaves it alone */
    struct lg_value values[LG_MAX_VALUES];
    const struct lg_reader *reader; /* takes the rows; NULL where no one reads them */
    bool only_drawn;      /* it will never be sent: `begin` draws the operation alone */
    bool thinks;          /* the run wants keying and think times */
    uint64_t keying_ns;   /* set by `begin` where it thinks; zero where there is none */
    uint64_t think_ns;
    const char *wrong;
    uint32_t retries;     /* set by `step`: attempts that the engine undid and made again itself */
    void *own;            /* the workload's, `terminal_bytes` long, zeroed */
};

/* A name that statements may use as :name, by operation; its place is its index in values. */
struct lg_bind_parameter {
    const char *name;
    enum lg_kind kind;
};

struct lg_operation {
    const char *name;
    struct lg_bind_parameter bind_parameters[LG_MAX_VALUES]; /* ended by a NULL name */
};

/* What a workload is opened with. */
struct lg_opening {
    const json_t *params;  /* the spec's workload.params */
    uint64_t seed;
    uint32_t terminals;    /* of all processes */
    bool alone;            /* all terminals are this process's */
    const char *shared;    /* file that the processes share; NULL: none */
    bool key_value;        /* the engine's rows are a key and a record */
    json_t *notes;         /* facts for the result */
};

struct lg_spec;
struct lg_statements;

/* A task other than "run". */
struct lg_job {
    const struct lg_spec *spec;
    const struct lg_backend *backend;
    struct lg_client *client;
};

struct lg_workload {
    const char *name;
    const struct lg_operation *operations;
    size_t operation_count; /* LG_MAX_OPERATIONS at most */
    size_t terminal_bytes;
    /* NULL with the error. */
    void *(*open)(const struct lg_opening *opening, struct tb_error *error);
    void (*close)(void *self);
    /*
     * How many statements an operation has: 0 where this is never used; where they are
     * many, one text for all of them will do as well. NULL: one each.
     */
    size_t (*texts)(void *self, int operation);
    /* The statements as they are; false with the error. NULL where they are as they may be. */
    bool (*prepare)(void *self, const struct lg_statements *statements, struct tb_error *error);
    void (*terminal)(void *self, struct lg_terminal *terminal);
    void (*begin)(void *self, struct lg_terminal *terminal);
    /* `result` is NULL at the first step of an operation. */
    enum lg_status (*step)(void *self, struct lg_terminal *terminal,
                            const struct lg_result *result);
    /* One line that says what this operation has committed; nothing where it has not. */
    void (*journal)(void *self, struct lg_terminal *terminal, const struct lg_result *result,
                    struct tb_text *line);
    /* Its own part of the result, when all terminals have ended. May be NULL. */
    void (*finish)(void *self, json_t *result);
    /* Task "load": fills the tables in parallel. NULL: none. */
    bool (*load)(const struct lg_job *job, json_t *result, struct tb_error *error);
    /* Task "verify": reads everything back. NULL: none. */
    bool (*verify)(const struct lg_job *job, json_t *result, struct tb_error *error);
};

extern const struct lg_workload lg_tpcc, lg_ycsb, lg_ping;

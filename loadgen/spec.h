/* The request: the JSON document on stdin, checked, with its defaults. */
#pragma once

#include "workload.h"

struct lg_spec {
    json_t *document; /* owns every text below */
    enum lg_task { LG_RUN, LG_LOAD, LG_VERIFY } task;
    const char *backend;
    const json_t *connection;
    const char *workload;
    const json_t *params;
    const json_t *statements;
    uint32_t threads, connections;
    uint32_t terminals, first_terminal, all_terminals;
    bool open_loop, think_time;
    double rate_per_s; /* of this process */
    double first_start; /* how far after the beginning, in distances between two starts */
    uint32_t processes; /* that offer as much each; they have one schedule where they share a file */
    uint64_t ramp_up_ns, drain_ns, series_interval_ns, stall_timeout_ns;
    uint32_t intervals_per_histogram; /* of the series, for its latencies */
    uint64_t duration_ns;          /* 0: until `operations` are done */
    uint64_t operations;           /* 0: until `duration_ns` has passed */
    uint64_t start_at_realtime_ns; /* 0: as soon as everything is connected */
    const char *journal, *shared;  /* may be NULL */
    uint64_t seed;
};

/* Every error names the key. The spec owns `document` in either case. */
bool lg_spec_read(struct lg_spec *spec, json_t *document, struct tb_error *error);
void lg_spec_free(struct lg_spec *spec);

/* The spec's statements in the order of the workload's operations. */
struct lg_statements {
    struct lg_statement *all;
    size_t count;
    struct {
        size_t first, count; /* 0: never used */
    } of[LG_MAX_OPERATIONS];
};

/*
 * With the places of their :names. `wanted`: how many each operation has; where they are
 * many, one text may stand for all of them. False with the error.
 */
bool lg_statements_read(struct lg_statements *statements, const json_t *given,
                        const struct lg_workload *workload, const size_t *wanted,
                        struct tb_error *error);
void lg_statements_free(struct lg_statements *statements);

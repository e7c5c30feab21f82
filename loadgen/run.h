/* One run of this process: what its event loops share. */
#pragma once

#include "spec.h"
#include "tally.h"

/* Of an open loop: which starts have been taken, by all loops of all processes that share it. */
struct lg_schedule {
    atomic_uint_fast64_t next_start; /* number of the next intended start */
    atomic_bool backlog_noted;       /* of the starts that are left at the window's end */
};

struct lg_run {
    const struct lg_spec *spec;
    const struct lg_workload *workload;
    void *work; /* the workload's own */
    const struct lg_backend *backend;
    struct lg_client *client;
    struct lg_statements statements;
    int journal; /* -1: none */

    /* Set before the gate opens, then only read. */
    uint64_t begin_ns, measure_ns;
    uint64_t end_ns, deadline_ns; /* UINT64_MAX where operations bound the phase */

    atomic_bool stop;
    atomic_uint connected, ended;  /* event loops */
    atomic_uint published[2];      /* those whose connections have, by end of the window */
    atomic_uint_fast64_t tickets;  /* operations begun, where their number is bounded */
    struct lg_schedule *schedule;  /* open loop */
    double starts_per_s, first_start; /* of the schedule */
    int wake;                      /* eventfd: a loop is connected, has ended, has failed */
    pthread_mutex_t lock;
    pthread_cond_t gate;
    bool gate_open;
    bool failed;
    bool stalled; /* the failure is that the server answered no call */
    struct tb_error error;
};

struct lg_connection;
struct lg_user;

/* Wake-up times: a binary heap by due time with space for every user, who is in it once. */
struct lg_timers {
    struct lg_timer {
        uint64_t due_ns;
        struct lg_user *user;
    } *heap;
    size_t count;
};

/* One event loop: a thread with its connections and terminals. */
struct lg_worker {
    struct lg_run *run;
    unsigned index;
    pthread_t thread;
    int stop_fd; /* eventfd: look at run->stop */

    /* Results; whole when the thread has ended. */
    struct lg_tally *tallies; /* by operation */
    struct lg_codes codes;
    uint64_t offered;                    /* open loop: intended starts in the window */
    uint64_t backlog_begin, backlog_end; /* due and not begun at the window's ends */
    uint64_t in_flight_begin, in_flight_end; /* begun and not answered */
    uint64_t last_done_ns;
    uint64_t cpu_ns;                     /* of the thread, in the window */

    /* Read by the main thread while we write. */
    struct lg_live *live;
    unsigned *live_seen;              /* main thread: what it has reported */
    atomic_uint in_flight;            /* calls that are not answered yet */
    atomic_uint_fast64_t reply_ns; /* the last sign of life of the server */

    /* The loop's own (worker.c). */
    int epoll, timer;
    uint64_t now_ns, armed_ns;
    uint64_t lead_ns; /* calls.c: how late a sleep ends, in the median */
    uint64_t interval, interval_end_ns; /* of the series, the one that was last counted in */
    struct lg_connection *connections;
    size_t connection_count;
    struct lg_connection *free, *ready;
    struct lg_user *users;
    size_t user_count;
    void *own; /* the workload's part of all users */
    struct lg_user *waiting, **waiting_end; /* for a connection, first come first served */
    size_t unpublished;      /* connections */
    size_t ends, ends_published; /* of the window: reached, and published by all connections */
    size_t busy; /* users between their send and their end */
    uint64_t granted;                       /* tickets taken and not used yet */
    bool exhausted;                         /* no operation is left to begin */
    struct lg_timers timers;
    struct tb_random random;
    struct tb_text journal;
};

/* Keeps the first failure and stops everything; from any thread. Returns whether it is that. */
bool lg_run_fail(struct lg_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The statement that the terminal is about to execute. */
static inline const struct lg_statement *lg_statement_of(const struct lg_run *run,
                                                         const struct lg_terminal *terminal)
{
    return &run->statements.all[run->statements.of[terminal->call].first +
                                (size_t)terminal->text];
}

/* Opens the schedule of an open loop, of this process or of several; false with the error. */
bool lg_schedule_open(struct lg_run *run, struct tb_error *error);
void lg_schedule_close(struct lg_run *run);

/* Wakes the main thread. */
void lg_run_wake(struct lg_run *run);

/* Body of an event loop's thread. */
void *lg_worker_main(void *worker);
void lg_worker_free(struct lg_worker *worker);

/* Runs and returns the result document; its "status" says how it ended. */
json_t *lg_run(const struct lg_spec *spec, const struct lg_workload *workload,
               const struct lg_backend *backend);

/* Result document of all event loops (result.c), NULL where they do not answer. */
struct lg_window {
    uint64_t measured_ns;
    uint64_t process_cpu_ns;
    json_t *engine_begin, *engine_end; /* an engine's counters inside us; NULL: none */
};
json_t *lg_result(const struct lg_run *run, const struct lg_worker *workers,
                  const struct lg_window *window, json_t *notes);

/*
 * An engine's counters at both ends (`begin` may be NULL: a load), which it takes over:
 * numbers are counters, texts are for a reader and are those of the end.
 */
void lg_result_add_engine(json_t *result, json_t *begin, json_t *end);

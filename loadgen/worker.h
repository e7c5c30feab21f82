/* Inside of an event loop: worker.c turns it, terminals.c is what happens in it. */
#pragma once

#include "run.h"

struct lg_connection {
    unsigned number;
    struct lg_session *session;
    struct lg_result result; /* of the session */
    int descriptor;   /* -1: the engine is embedded */
    uint32_t watched; /* epoll events that are requested */
    struct lg_user *user; /* whom it works for */
    bool ready;           /* answered within submit, not looked at yet */
    bool unpublished;     /* is to publish its session's counters before it is free again */
    bool publishing;
    struct lg_connection *next; /* in the list of free or of ready ones */
};

/* The emulated user of a terminal, and what it is doing. */
enum lg_place {
    LG_AWAY,     /* nothing to do: at the end */
    LG_DUE,      /* open loop: begins when the start that it has taken comes */
    LG_THINKING, /* begins its next operation when its time comes */
    LG_KEYING,   /* sends the operation it has begun */
    LG_WAITING,  /* has sent, and no connection is free */
    LG_WORKING,
    LG_PAUSING,  /* between two attempts, keeps its connection */
};

struct lg_user {
    struct lg_terminal terminal;
    enum lg_place place;
    struct lg_connection *connection;
    uint64_t start_ns; /* of the operation: sent, or meant to be sent */
    unsigned attempts;
    struct lg_user *next;
};

/* The run has failed. */
static inline bool lg_stopped(const struct lg_worker *worker)
{
    return atomic_load_explicit(&worker->run->stop, memory_order_relaxed);
}

/* worker.c */
void lg_timers_add(struct lg_timers *timers, uint64_t due_ns, struct lg_user *user);
/* The due time of the first, UINT64_MAX where there is none. */
uint64_t lg_timers_next(const struct lg_timers *timers);
struct lg_timer lg_timers_take(struct lg_timers *timers);

/* terminals.c */
void lg_users_start(struct lg_worker *worker);
/* A terminal's timer has come. */
void lg_user_wake(struct lg_worker *worker, struct lg_user *user, uint64_t due_ns);
/* What submit or advance has said of a connection. */
void lg_connection_settled(struct lg_worker *worker, struct lg_connection *connection,
                           enum lg_state state);
void lg_connection_answered(struct lg_worker *worker, struct lg_connection *connection);
/* At an end of the window: every connection publishes what it has done, once it is free. */
void lg_publish(struct lg_worker *worker);
/* Open loop, as the window begins: what should have begun in the ramp-up never will. */
void lg_leave_ramp_up(struct lg_worker *worker);
/* Open loop, as the window ends: how much of what is due has not begun. */
void lg_note_backlog(struct lg_worker *worker);
/* The loop's operations that have begun and are not done. */
uint64_t lg_operations_in_flight(const struct lg_worker *worker);
/* What is not done at the end, with its age so far. */
void lg_count_unfinished(struct lg_worker *worker);

/* Whether an operation may begin in the phase that `start_ns` falls into. */
bool lg_may_start(struct lg_worker *worker, uint64_t start_ns);
/* Draws the terminal's next operation. */
void lg_draw(struct lg_worker *worker, struct lg_user *user);
/* The workload's next step; `result` is NULL at the first one. */
enum lg_status lg_step(struct lg_worker *worker, struct lg_user *user,
                        const struct lg_result *result);
/* The operation is done, or has failed. */
void lg_count(struct lg_worker *worker, struct lg_user *user, enum lg_status status,
              const struct lg_result *result);
void lg_fail_operation(struct lg_worker *worker, const struct lg_user *user, const char *code,
                       const char *message);
/* An attempt was undone: how long to wait before the next; false where that were too many. */
bool lg_count_retry(struct lg_worker *worker, struct lg_user *user,
                    const struct lg_result *result, uint64_t *pause_ns);
/* Open loop: the terminal takes the next intended start; false after the window. */
bool lg_take_start(struct lg_worker *worker, struct lg_user *user);

/* worker.c: watches the connection's descriptor for these epoll events. */
void lg_watch(struct lg_worker *worker, struct lg_connection *connection, uint32_t events);
void lg_write_journal(struct lg_worker *worker);
/* At the window's two ends: its processor time, and the backlog of an open loop. */
void lg_note_window(struct lg_worker *worker, uint64_t before_ns, uint64_t now_ns);

/* calls.c: a loop whose engine answers within the call. */
bool lg_works_in_calls(const struct lg_worker *worker);
void lg_work_in_calls(struct lg_worker *worker);

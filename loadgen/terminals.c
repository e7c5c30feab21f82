/*
 * What terminals do, from one operation to the next.
 *
 * Closed loop: a terminal begins its next operation when the last one is done (and its
 * think time has passed). Open loop: operations are meant to start evenly spaced, by the
 * schedule. A terminal that is free takes the next start of the schedule and sleeps until then, so
 * that the terminals of all loops serve one queue; where none is free, the start is late. The
 * processes of one host share the schedule by a file, so theirs is one queue, too; a process of
 * another host has a schedule of its own, which begins between those of the others. Latency
 * counts from when the operation was meant to start, so every operation that would have come
 * during a stall of the server shows it.
 *
 * The measured window begins with an empty queue: starts of the ramp-up that no terminal
 * has taken by then are left out and counted as its backlog.
 *
 * The clock is read when an answer is there, and when a timer fires; in between the
 * loop's `now_ns` stands.
 */
#include "worker.h"

#include <math.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#define MOST_RETRIES 1000
#define MOST_TICKETS 64
#define TICKET_PARTS 16
#define SHORTEST_PAUSE_NS (TB_MILLISECOND / 10)
#define PAUSE_DOUBLINGS 6
/* Drawing the operations of a backlog one by one ends here; after it, by the sample. */
#define BACKLOG_DRAWN 1000000

static bool in_window(const struct lg_run *run, uint64_t at_ns)
{
    return at_ns >= run->measure_ns && at_ns < run->end_ns;
}

void lg_fail_operation(struct lg_worker *worker, const struct lg_user *user, const char *code,
                       const char *message)
{
    if (*code)
        lg_codes_count(&worker->codes, code, 1);
    lg_run_fail(worker->run, "%s of terminal %u on connection %u: %s%s%s",
                worker->run->workload->operations[user->terminal.operation].name,
                user->terminal.number, user->connection->number, code, *code ? ": " : "", message);
}

static void later(struct lg_worker *worker, struct lg_user *user, enum lg_place place,
                  uint64_t due_ns)
{
    user->place = place;
    lg_timers_add(&worker->timers, due_ns, user);
}

static void call(struct lg_worker *worker, struct lg_user *user, const struct lg_result *result);
static void publish(struct lg_worker *worker, struct lg_connection *connection);
static void begin(struct lg_worker *worker, struct lg_user *user);

static void occupy(struct lg_worker *worker, struct lg_user *user, struct lg_connection *connection)
{
    connection->user = user;
    user->connection = connection;
    user->place = LG_WORKING;
    call(worker, user, NULL);
}

/* Some at once, so that loops do not meet at the counter; few enough that all end together. */
static bool take_tickets(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    uint64_t all = run->spec->operations, share = all / run->spec->threads / TICKET_PARTS;
    uint64_t requested = share < 1 ? 1 : share < MOST_TICKETS ? share : MOST_TICKETS;
    uint64_t first = atomic_fetch_add_explicit(&run->tickets, requested, memory_order_relaxed);
    if (first < all)
        worker->granted = all - first < requested ? all - first : requested;
    return worker->granted > 0;
}

/* Where operations are counted, one that starts in the window needs a ticket. */
bool lg_may_start(struct lg_worker *worker, uint64_t start_ns)
{
    struct lg_run *run = worker->run;
    if (run->spec->operations == 0)
        return start_ns < run->end_ns;
    if (start_ns < run->measure_ns)
        return true;
    if (worker->granted == 0 && !take_tickets(worker)) {
        worker->exhausted = true;
        return false;
    }
    worker->granted--;
    return true;
}

/* An operation that may start. */
static void send(struct lg_worker *worker, struct lg_user *user, uint64_t start_ns)
{
    user->start_ns = start_ns;
    user->attempts = 0;
    worker->busy++;
    struct lg_connection *connection = worker->free;
    if (connection) {
        worker->free = connection->next;
        occupy(worker, user, connection);
        return;
    }
    user->place = LG_WAITING;
    user->next = NULL;
    *worker->waiting_end = user;
    worker->waiting_end = &user->next;
}

static void send_if(struct lg_worker *worker, struct lg_user *user, uint64_t start_ns)
{
    if (lg_may_start(worker, start_ns))
        send(worker, user, start_ns);
    else
        user->place = LG_AWAY;
}

void lg_draw(struct lg_worker *worker, struct lg_user *user)
{
    const struct lg_run *run = worker->run;
    user->terminal.keying_ns = user->terminal.think_ns = 0;
    user->terminal.retries = 0;
    run->workload->begin(run->work, &user->terminal);
}

/* Closed loop: the terminal's next operation. */
static void begin(struct lg_worker *worker, struct lg_user *user)
{
    struct lg_run *run = worker->run;
    if (worker->exhausted || worker->now_ns >= run->end_ns) {
        user->place = LG_AWAY;
        return;
    }
    /* Keying comes between; else it is checked first, so that what is drawn is done. */
    if (!run->spec->think_time && !lg_may_start(worker, worker->now_ns)) {
        user->place = LG_AWAY;
        return;
    }
    lg_draw(worker, user);
    if (!run->spec->think_time)
        send(worker, user, worker->now_ns);
    else if (user->terminal.keying_ns)
        later(worker, user, LG_KEYING, worker->now_ns + user->terminal.keying_ns);
    else
        send_if(worker, user, worker->now_ns);
}

bool lg_schedule_open(struct lg_run *run, struct tb_error *error)
{
    const struct lg_spec *spec = run->spec;
    bool together = spec->shared && spec->processes > 1;
    struct tb_text path = {0};

    if (!spec->open_loop)
        return true;
    run->starts_per_s = together ? spec->rate_per_s * spec->processes : spec->rate_per_s;
    run->first_start = together ? 0 : spec->first_start;
    if (together)
        tb_text_printf(&path, "%s.starts", spec->shared);
    tb_text_add(&path, "", 1);
    run->schedule =
        tb_shared_memory(together ? path.bytes : NULL, sizeof *run->schedule, error);
    free(path.bytes);
    return run->schedule != NULL;
}

void lg_schedule_close(struct lg_run *run)
{
    if (run->schedule)
        munmap(run->schedule, sizeof *run->schedule);
}

static uint64_t start_of(const struct lg_run *run, uint64_t number)
{
    double place = run->first_start + (double)number;
    return run->begin_ns + (uint64_t)llround(place / run->starts_per_s * (double)TB_SECOND);
}

/* How many starts the schedule has before `until_ns`. */
static uint64_t starts_before(const struct lg_run *run, uint64_t until_ns)
{
    if (until_ns <= run->begin_ns)
        return 0;
    double places = (double)(until_ns - run->begin_ns) / (double)TB_SECOND * run->starts_per_s -
                    run->first_start;
    uint64_t number = places > 0 ? (uint64_t)places : 0;
    while (number > 0 && start_of(run, number - 1) >= until_ns)
        number--;
    while (start_of(run, number) < until_ns)
        number++;
    return number;
}

bool lg_take_start(struct lg_worker *worker, struct lg_user *user)
{
    struct lg_run *run = worker->run;
    uint64_t number = atomic_fetch_add_explicit(&run->schedule->next_start, 1, memory_order_relaxed);
    user->start_ns = start_of(run, number);
    if (user->start_ns >= run->end_ns)
        return false;
    worker->offered += user->start_ns >= run->measure_ns;
    return true;
}

/* Takes all starts before `until_ns` that are left at once: how many, and the first one. */
static uint64_t take_all_before(struct lg_run *run, uint64_t until_ns, uint64_t *first)
{
    uint64_t number = starts_before(run, until_ns);
    *first = atomic_load_explicit(&run->schedule->next_start, memory_order_relaxed);
    while (*first < number &&
           !atomic_compare_exchange_weak_explicit(&run->schedule->next_start, first, number,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return *first < number ? number - *first : 0;
}

/* Open loop: the operation of the start that the terminal has taken. */
static void begin_at_start(struct lg_worker *worker, struct lg_user *user)
{
    lg_draw(worker, user);
    send(worker, user, user->start_ns);
}

static void rest(struct lg_worker *worker, struct lg_user *user)
{
    if (worker->run->spec->open_loop) {
        if (!lg_take_start(worker, user))
            user->place = LG_AWAY;
        else if (user->start_ns > worker->now_ns)
            later(worker, user, LG_DUE, user->start_ns);
        else
            begin_at_start(worker, user);
    } else if (worker->run->spec->think_time && user->terminal.think_ns) {
        later(worker, user, LG_THINKING, worker->now_ns + user->terminal.think_ns);
    } else {
        begin(worker, user);
    }
}

static void release(struct lg_worker *worker, struct lg_connection *connection)
{
    struct lg_user *next = worker->waiting;
    connection->user = NULL;
    if (connection->unpublished) {
        publish(worker, connection);
    } else if (next) {
        worker->waiting = next->next;
        if (!worker->waiting)
            worker->waiting_end = &worker->waiting;
        occupy(worker, next, connection);
    } else {
        connection->next = worker->free;
        worker->free = connection;
    }
}

/* Of a time in the window; time goes on, so that mostly it is the same as before. */
static uint64_t interval_of(struct lg_worker *worker, uint64_t now_ns)
{
    const struct lg_run *run = worker->run;
    if (now_ns >= worker->interval_end_ns) {
        uint64_t length = run->spec->series_interval_ns;
        worker->interval = (now_ns - run->measure_ns) / length;
        worker->interval_end_ns = run->measure_ns + (worker->interval + 1) * length;
    }
    return worker->interval;
}

void lg_count(struct lg_worker *worker, struct lg_user *user, enum lg_status status,
              const struct lg_result *result)
{
    const struct lg_run *run = worker->run;
    struct lg_tally *tally = &worker->tallies[user->terminal.operation];
    uint64_t now = worker->now_ns;
    uint64_t latency_ns = now - user->start_ns;
    if (in_window(run, user->start_ns))
        tb_hdr_record(&tally->latency, latency_ns, 1);
    if (status != LG_ROLLED_BACK) {
        uint64_t so_far = atomic_load_explicit(&tally->finished, memory_order_relaxed);
        atomic_store_explicit(&tally->finished, so_far + 1, memory_order_relaxed);
        lg_live_record(worker->live, latency_ns);
        if (run->journal >= 0 && run->workload->journal)
            run->workload->journal(run->work, &user->terminal, result, &worker->journal);
    }
    /* At a set rate, what was meant to start in the ramp-up is no part of the window. */
    if (!in_window(run, now) || (run->spec->open_loop && !in_window(run, user->start_ns)))
        return;
    worker->last_done_ns = now;
    if (user->terminal.retries) {
        tally->retried += user->terminal.retries;
        lg_codes_count(&worker->codes, "in-procedure", user->terminal.retries);
    }
    if (status == LG_ROLLED_BACK)
        tally->rolled_back++;
    else
        lg_tally_done(tally, interval_of(worker, now), latency_ns);
    tally->skipped += status == LG_SKIPPED;
    tally->not_found += status == LG_NOT_FOUND;
}

static void finish(struct lg_worker *worker, struct lg_user *user, enum lg_status status,
                   const struct lg_result *result)
{
    struct lg_connection *connection = user->connection;
    lg_count(worker, user, status, result);
    worker->busy--;
    user->connection = NULL;
    release(worker, connection);
    rest(worker, user);
}

enum lg_status lg_step(struct lg_worker *worker, struct lg_user *user,
                        const struct lg_result *result)
{
    const struct lg_run *run = worker->run;
    if (!result) {
        user->terminal.call = user->terminal.operation;
        user->terminal.text = 0;
    }
    return run->workload->step(run->work, &user->terminal, result);
}

static void count_call(struct lg_worker *worker)
{
    unsigned in_flight = atomic_load_explicit(&worker->in_flight, memory_order_relaxed);
    if (in_flight == 0)
        atomic_store_explicit(&worker->reply_ns, worker->now_ns, memory_order_relaxed);
    atomic_store_explicit(&worker->in_flight, in_flight + 1, memory_order_relaxed);
}

static void publish(struct lg_worker *worker, struct lg_connection *connection)
{
    connection->publishing = true;
    count_call(worker);
    lg_connection_settled(worker, connection, worker->run->backend->publish(connection->session));
}

void lg_publish(struct lg_worker *worker)
{
    if (!worker->run->backend->publish)
        return;
    worker->ends++;
    for (size_t i = 0; i < worker->connection_count; i++) {
        worker->unpublished += !worker->connections[i].unpublished;
        worker->connections[i].unpublished = true;
    }
    struct lg_connection *connection = worker->free;
    worker->free = NULL;
    while (connection) {
        struct lg_connection *next = connection->next;
        publish(worker, connection);
        connection = next;
    }
}

static void published(struct lg_worker *worker, struct lg_connection *connection,
                      const struct lg_result *result)
{
    struct lg_run *run = worker->run;
    if (result->outcome != LG_OK) {
        lg_run_fail(run, "connection %u: publish the session's counters: %s: %s",
                    connection->number, result->code, result->message);
        return;
    }
    connection->publishing = connection->unpublished = false;
    release(worker, connection);
    if (--worker->unpublished > 0)
        return;
    while (worker->ends_published < worker->ends)
        atomic_fetch_add(&run->published[worker->ends_published++], 1);
    lg_run_wake(run);
}

/* The workload's next step, on the connection the terminal has. */
static void call(struct lg_worker *worker, struct lg_user *user, const struct lg_result *result)
{
    struct lg_run *run = worker->run;
    struct lg_connection *connection = user->connection;
    enum lg_status status = lg_step(worker, user, result);
    if (status == LG_WRONG) {
        lg_fail_operation(worker, user, "", user->terminal.wrong);
    } else if (status != LG_EXECUTE) {
        finish(worker, user, status, result);
    } else {
        const struct lg_statement *statement = lg_statement_of(run, &user->terminal);
        count_call(worker);
        lg_connection_settled(worker, connection,
                              run->backend->submit(connection->session, statement,
                                                   user->terminal.values, user->terminal.reader));
    }
}

void lg_connection_settled(struct lg_worker *worker, struct lg_connection *connection,
                           enum lg_state state)
{
    if (state == LG_READY) { /* not at once: an embedded engine would never let others in */
        connection->ready = true;
        connection->next = worker->ready;
        worker->ready = connection;
    } else {
        lg_watch(worker, connection,
                 state == LG_WANT_WRITE ? EPOLLIN | EPOLLOUT | EPOLLRDHUP
                                        : EPOLLIN | EPOLLRDHUP);
    }
}

bool lg_count_retry(struct lg_worker *worker, struct lg_user *user,
                    const struct lg_result *result, uint64_t *pause_ns)
{
    struct lg_tally *tally = &worker->tallies[user->terminal.operation];
    if (++user->attempts > MOST_RETRIES) {
        lg_fail_operation(worker, user, result->code,
                          "undone and tried again 1000 times, to no avail");
        return false;
    }
    if (in_window(worker->run, worker->now_ns)) {
        tally->retried++;
        lg_codes_count(&worker->codes, result->code, 1);
    }
    unsigned doublings = user->attempts < PAUSE_DOUBLINGS ? user->attempts : PAUSE_DOUBLINGS;
    int64_t longest = (int64_t)(SHORTEST_PAUSE_NS << doublings);
    *pause_ns = (uint64_t)tb_random_between(&worker->random, 0, longest);
    return true;
}

void lg_connection_answered(struct lg_worker *worker, struct lg_connection *connection)
{
    struct lg_user *user = connection->user;
    const struct lg_result *result = &connection->result;
    unsigned in_flight = atomic_load_explicit(&worker->in_flight, memory_order_relaxed);
    uint64_t pause_ns;
    worker->now_ns = tb_monotonic_ns();
    atomic_store_explicit(&worker->in_flight, in_flight - 1, memory_order_relaxed);
    atomic_store_explicit(&worker->reply_ns, worker->now_ns, memory_order_relaxed);
    if (connection->publishing)
        published(worker, connection, result);
    else if (result->outcome == LG_OK)
        call(worker, user, result);
    else if (result->outcome != LG_RETRY)
        lg_fail_operation(worker, user, result->code, result->message);
    else if (lg_count_retry(worker, user, result, &pause_ns))
        later(worker, user, LG_PAUSING, worker->now_ns + pause_ns);
}

void lg_user_wake(struct lg_worker *worker, struct lg_user *user, uint64_t due_ns)
{
    if (user->place == LG_PAUSING) {
        user->place = LG_WORKING;
        call(worker, user, NULL);
    } else if (user->place == LG_DUE) {
        begin_at_start(worker, user);
    } else if (user->place == LG_KEYING) {
        send_if(worker, user, due_ns);
    } else {
        begin(worker, user);
    }
}

/*
 * Closed loop: everybody begins with the run; emulated users that think come one by one
 * within the first cycle, as they would if they had been at it for long.
 */
void lg_users_start(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    for (size_t i = 0; i < worker->user_count; i++) {
        struct lg_user *user = &worker->users[i];
        if (run->spec->open_loop) {
            rest(worker, user);
        } else if (run->spec->think_time) {
            lg_draw(worker, user);
            uint64_t cycle = user->terminal.keying_ns + user->terminal.think_ns;
            double share = 1.0 - tb_random_fraction(&worker->random);
            later(worker, user, LG_KEYING, run->begin_ns + (uint64_t)(share * (double)cycle));
        } else {
            later(worker, user, LG_THINKING, run->begin_ns);
        }
    }
}

static uint64_t waiting(const struct lg_worker *worker)
{
    uint64_t count = 0;
    for (const struct lg_user *user = worker->waiting; user; user = user->next)
        count++;
    return count;
}

uint64_t lg_operations_in_flight(const struct lg_worker *worker)
{
    uint64_t count = 0;
    for (size_t i = 0; i < worker->user_count; i++)
        count += worker->users[i].place >= LG_WORKING;
    return count;
}

/* Whoever comes first leaves out what no terminal has taken; each loop, what waits in it. */
void lg_leave_ramp_up(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    if (!run->spec->open_loop)
        return;
    uint64_t first;
    worker->backlog_begin = take_all_before(run, run->measure_ns, &first);
    /* Starts wait in their order; those of the window may be there when this loop is late. */
    while (worker->waiting && worker->waiting->start_ns < run->measure_ns) {
        struct lg_user *user = worker->waiting;
        worker->waiting = user->next;
        if (!worker->waiting)
            worker->waiting_end = &worker->waiting;
        worker->backlog_begin++;
        worker->busy--;
        rest(worker, user);
    }
}

void lg_note_backlog(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    if (!run->spec->open_loop)
        return;
    worker->backlog_end = waiting(worker);
    if (atomic_exchange(&run->schedule->backlog_noted, true))
        return;
    uint64_t due = starts_before(run, run->end_ns), taken = atomic_load(&run->schedule->next_start);
    worker->backlog_end += due > taken ? due - taken : 0;
}

static void count_unfinished(struct lg_worker *worker, int operation, uint64_t start_ns,
                             uint64_t times)
{
    struct lg_tally *tally = &worker->tallies[operation];
    uint64_t now = worker->now_ns;
    if (!in_window(worker->run, start_ns))
        return;
    tally->unfinished += times;
    tb_hdr_record(&tally->latency, now > start_ns ? now - start_ns : 0, times);
}

/* What was meant to start and has not begun is drawn now: it would have been some operation. */
static void count_never_begun(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    bool cut = worker->now_ns < run->end_ns; /* the run has failed */
    uint64_t number, left = take_all_before(run, cut ? worker->now_ns : run->end_ns, &number);
    uint64_t each = left / BACKLOG_DRAWN + 1;
    struct lg_terminal *drawn = &worker->users[0].terminal;
    drawn->only_drawn = true;
    while (left > 0) {
        uint64_t times = left < each ? left : each;
        uint64_t start = start_of(run, number);
        if (start >= run->measure_ns) {
            worker->offered += times;
            run->workload->begin(run->work, drawn);
            count_unfinished(worker, drawn->operation, start, times);
        }
        number += times;
        left -= times;
    }
}

void lg_count_unfinished(struct lg_worker *worker)
{
    for (size_t i = 0; i < worker->user_count; i++) {
        const struct lg_user *user = &worker->users[i];
        if (user->place >= LG_WAITING)
            count_unfinished(worker, user->terminal.operation, user->start_ns, 1);
    }
    if (worker->run->spec->open_loop)
        count_never_begun(worker);
}

/*
 * The loop of an engine inside this process: it answers within the call, so there is
 * nothing to wait for. One terminal, one connection, one call after the other; the clock
 * is read before an operation's first call and after its last, and no timer or descriptor
 * is on the way.
 *
 * Open loop: a thread that is woken is some microseconds late, which is what a call takes. So
 * it sleeps until so long before an intended start as wakes are late, and spins
 * what is left then: next to nothing, since spinning is processor time of the engine's.
 */
#include "worker.h"

#include <sys/prctl.h>

/* How long before a start it is woken at the most; a lateness beyond is the latency's. */
#define LONGEST_LEAD_NS 20000
#define LEAD_STEP_NS 500
/* What going to sleep takes by itself. */
#define LEAST_SLEEP_NS 2000
/* Sleeps in pieces, so that a run that has failed is noticed. */
#define LONGEST_SLEEP_NS (50 * TB_MILLISECOND)

bool lg_works_in_calls(const struct lg_worker *worker)
{
    return worker->connection_count == 1 && worker->user_count == 1 &&
           worker->connections[0].descriptor < 0 && !worker->run->spec->think_time;
}

/* Reads the clock, and what is to be noted where it has passed an end of the window. */
static uint64_t look(struct lg_worker *worker)
{
    uint64_t before = worker->now_ns, now = tb_monotonic_ns();
    const struct lg_run *run = worker->run;
    worker->now_ns = now;
    if (now >= run->measure_ns && (before < run->measure_ns || now >= run->end_ns))
        lg_note_window(worker, before, now);
    return now;
}

/* The lead steps towards the median of how late wakes are: a few very late ones do not move it. */
static void learn_lead(struct lg_worker *worker, uint64_t late_ns)
{
    if (late_ns <= worker->lead_ns)
        worker->lead_ns -= worker->lead_ns < LEAD_STEP_NS ? worker->lead_ns : LEAD_STEP_NS;
    else if (worker->lead_ns < LONGEST_LEAD_NS)
        worker->lead_ns += LEAD_STEP_NS;
}

/* False where the run has been stopped meanwhile. */
static bool wait_until(struct lg_worker *worker, uint64_t at_ns)
{
    while (!lg_stopped(worker)) {
        uint64_t now = look(worker);
        if (now >= at_ns)
            return true;
        uint64_t left = at_ns - now;
        if (left > worker->lead_ns + LEAST_SLEEP_NS) {
            uint64_t sleep_ns = left - worker->lead_ns;
            uint64_t until = now + (sleep_ns < LONGEST_SLEEP_NS ? sleep_ns : LONGEST_SLEEP_NS);
            struct timespec when = tb_timespec(until);
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
                ;
            now = tb_monotonic_ns();
            learn_lead(worker, now > until ? now - until : 0);
        }
    }
    return false;
}

/* One attempt: calls until the workload is content. */
static enum lg_status attempt(struct lg_worker *worker, struct lg_user *user,
                               const struct lg_result **result)
{
    const struct lg_run *run = worker->run;
    struct lg_connection *connection = user->connection;
    enum lg_status status = lg_step(worker, user, NULL);
    while (status == LG_EXECUTE) {
        run->backend->submit(connection->session, lg_statement_of(run, &user->terminal),
                             user->terminal.values, user->terminal.reader);
        *result = &connection->result;
        if ((*result)->outcome != LG_OK)
            break;
        status = lg_step(worker, user, *result);
    }
    return status;
}

/* Tries until it is done; what has gone wrong ends the run. */
static void execute(struct lg_worker *worker, struct lg_user *user)
{
    const struct lg_result *result = NULL;
    uint64_t pause_ns;
    enum lg_status status = attempt(worker, user, &result);
    while (status == LG_EXECUTE && result->outcome == LG_RETRY && !lg_stopped(worker)) {
        look(worker);
        if (!lg_count_retry(worker, user, result, &pause_ns) ||
            !wait_until(worker, worker->now_ns + pause_ns))
            return;
        status = attempt(worker, user, &result);
    }
    look(worker);
    if (status == LG_EXECUTE)
        lg_fail_operation(worker, user, result->code, result->message);
    else if (status == LG_WRONG)
        lg_fail_operation(worker, user, "", user->terminal.wrong);
    else
        lg_count(worker, user, status, result);
}

/* Waits for the start of the next operation; false where there is none. */
static bool next_start(struct lg_worker *worker, struct lg_user *user)
{
    const struct lg_run *run = worker->run;
    if (run->spec->open_loop) {
        if (!lg_take_start(worker, user))
            return false;
        lg_draw(worker, user);
        if (!wait_until(worker, user->start_ns))
            return false;
        if (worker->now_ns >= run->deadline_ns)
            user->place = LG_WAITING; /* too late: it is counted as unfinished */
        return user->place != LG_WAITING;
    }
    if (!lg_may_start(worker, worker->now_ns)) /* checked first: what is drawn is done */
        return false;
    lg_draw(worker, user);
    user->start_ns = look(worker);
    return true;
}

void lg_work_in_calls(struct lg_worker *worker)
{
    struct lg_user *user = &worker->users[0];
    user->connection = &worker->connections[0];
    prctl(PR_SET_TIMERSLACK, 1UL);
    /* The library's own threads have their creator's name: this one executes operations. */
    prctl(PR_SET_NAME, "loadgen-worker");
    if (!wait_until(worker, worker->run->begin_ns))
        return;
    while (!lg_stopped(worker) && next_start(worker, user)) {
        user->place = LG_WORKING;
        user->attempts = 0;
        atomic_store_explicit(&worker->reply_ns, worker->now_ns, memory_order_relaxed);
        atomic_store_explicit(&worker->in_flight, 1, memory_order_relaxed);
        execute(worker, user);
        atomic_store_explicit(&worker->in_flight, 0, memory_order_relaxed);
        if (lg_stopped(worker)) /* it has failed, or ended while it was tried again */
            break;
        user->place = LG_AWAY;
        if (worker->journal.length)
            lg_write_journal(worker);
    }
    if (worker->now_ns < worker->run->end_ns && !worker->run->spec->operations)
        wait_until(worker, worker->run->end_ns);
}

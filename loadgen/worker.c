/*
 * One event loop: a thread that connects, waits for the common start, and turns until
 * the run is over. Nothing in here takes a lock once the run has begun.
 *
 * One turn: sleep until a descriptor or the timer is ready → advance the connections →
 * answers of embedded engines → timers → write the journal.
 */
#include "worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#define EVENTS_A_TURN 64

void lg_timers_add(struct lg_timers *timers, uint64_t due_ns, struct lg_user *user)
{
    size_t at = timers->count++;
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (timers->heap[parent].due_ns <= due_ns)
            break;
        timers->heap[at] = timers->heap[parent];
        at = parent;
    }
    timers->heap[at] = (struct lg_timer){due_ns, user};
}

uint64_t lg_timers_next(const struct lg_timers *timers)
{
    return timers->count ? timers->heap[0].due_ns : UINT64_MAX;
}

struct lg_timer lg_timers_take(struct lg_timers *timers)
{
    struct lg_timer first = timers->heap[0];
    struct lg_timer last = timers->heap[--timers->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->count)
            break;
        if (child + 1 < timers->count &&
            timers->heap[child + 1].due_ns < timers->heap[child].due_ns)
            child++;
        if (last.due_ns <= timers->heap[child].due_ns)
            break;
        timers->heap[at] = timers->heap[child];
        at = child;
    }
    timers->heap[at] = last;
    return first;
}

void lg_watch(struct lg_worker *worker, struct lg_connection *connection, uint32_t events)
{
    if (connection->watched == events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = connection};
    int operation = connection->watched == 0 ? EPOLL_CTL_ADD
                    : events == 0            ? EPOLL_CTL_DEL
                                             : EPOLL_CTL_MOD;
    if (epoll_ctl(worker->epoll, operation, connection->descriptor, &event) != 0)
        lg_run_fail(worker->run, "connection %u: cannot wait for it: %s", connection->number,
                    strerror(errno));
    connection->watched = events;
}

/* The next time that anything is to be done without the server having answered. */
static uint64_t next_due(const struct lg_worker *worker)
{
    const struct lg_run *run = worker->run;
    uint64_t due = lg_timers_next(&worker->timers);
    const uint64_t bounds[] = {run->measure_ns, run->end_ns, run->deadline_ns};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i] > worker->now_ns && bounds[i] < due)
            due = bounds[i];
    return due;
}

static void arm(struct lg_worker *worker)
{
    uint64_t due = next_due(worker);
    if (due == worker->armed_ns || due == UINT64_MAX)
        return;
    struct itimerspec when = {.it_value = tb_timespec(due)};
    timerfd_settime(worker->timer, TFD_TIMER_ABSTIME, &when, NULL);
    worker->armed_ns = due;
}

static void fire_timers(struct lg_worker *worker)
{
    while (lg_timers_next(&worker->timers) <= worker->now_ns && !lg_stopped(worker)) {
        struct lg_timer timer = lg_timers_take(&worker->timers);
        lg_user_wake(worker, timer.user, timer.due_ns);
    }
}

static void receive(struct lg_worker *worker, struct lg_connection *connection, uint32_t events)
{
    if (connection->ready)
        return;
    if (!connection->publishing && (!connection->user || connection->user->place != LG_WORKING)) {
        /* A message of the server between two calls: the next call will see it. */
        lg_watch(worker, connection, 0);
        if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR))
            lg_run_fail(worker->run, "connection %u: the server closed it while it was idle",
                        connection->number);
        return;
    }
    enum lg_state state = worker->run->backend->advance(connection->session);
    if (state == LG_READY) {
        lg_connection_answered(worker, connection);
        return;
    }
    atomic_store_explicit(&worker->reply_ns, tb_monotonic_ns(), memory_order_relaxed);
    lg_connection_settled(worker, connection, state);
}

static void answer_ready(struct lg_worker *worker)
{
    struct lg_connection *connection = worker->ready;
    worker->ready = NULL;
    while (connection && !lg_stopped(worker)) {
        struct lg_connection *next = connection->next;
        connection->ready = false;
        lg_connection_answered(worker, connection);
        connection = next;
    }
}

void lg_write_journal(struct lg_worker *worker)
{
    if (!tb_write_all(worker->run->journal, worker->journal.bytes, worker->journal.length))
        lg_run_fail(worker->run, "journal %s: %s", worker->run->spec->journal, strerror(errno));
    worker->journal.length = 0;
}

void lg_note_window(struct lg_worker *worker, uint64_t before_ns, uint64_t now_ns)
{
    const struct lg_run *run = worker->run;
    if (before_ns < run->measure_ns && now_ns >= run->measure_ns) {
        worker->cpu_ns -= tb_thread_cpu_ns();
        worker->in_flight_begin = lg_operations_in_flight(worker);
        lg_leave_ramp_up(worker);
        lg_publish(worker);
    }
    if (before_ns < run->end_ns && now_ns >= run->end_ns) {
        worker->cpu_ns += tb_thread_cpu_ns();
        worker->in_flight_end = lg_operations_in_flight(worker);
        lg_note_backlog(worker);
        lg_publish(worker);
    }
}

static void turn(struct lg_worker *worker)
{
    struct epoll_event events[EVENTS_A_TURN];
    uint64_t before = worker->now_ns;
    arm(worker);
    int count = epoll_wait(worker->epoll, events, EVENTS_A_TURN, worker->ready ? 0 : -1);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == worker) {
            worker->now_ns = tb_monotonic_ns();
            worker->armed_ns = 0;
        } else if (events[i].data.ptr) {
            receive(worker, events[i].data.ptr, events[i].events);
        }
        if (lg_stopped(worker))
            break;
    }
    answer_ready(worker);
    fire_timers(worker);
    lg_note_window(worker, before, worker->now_ns);
    if (worker->journal.length)
        lg_write_journal(worker);
}

static bool over(const struct lg_worker *worker)
{
    const struct lg_run *run = worker->run;
    if (lg_stopped(worker) || worker->now_ns >= run->deadline_ns)
        return true;
    bool more = worker->now_ns < run->end_ns && !worker->exhausted;
    return !more && worker->busy == 0 && worker->unpublished == 0 &&
           lg_timers_next(&worker->timers) > worker->now_ns;
}

static bool watch_descriptor(struct lg_worker *worker, int descriptor, uint32_t events, void *data)
{
    struct epoll_event event = {.events = events, .data.ptr = data};
    return descriptor >= 0 &&
           epoll_ctl(worker->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static bool open_descriptors(struct lg_worker *worker)
{
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    worker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    /* Edge-triggered: setting the timer again is enough, it is never read. */
    if (worker->epoll >= 0 &&
        watch_descriptor(worker, worker->timer, EPOLLIN | EPOLLET, worker) &&
        watch_descriptor(worker, worker->stop_fd, EPOLLIN, NULL))
        return true;
    lg_run_fail(worker->run, "event loop %u: %s", worker->index, strerror(errno));
    return false;
}

static size_t share(size_t of, const struct lg_worker *worker)
{
    unsigned threads = worker->run->spec->threads;
    return of / threads + (worker->index < of % threads);
}

static void open_users(struct lg_worker *worker)
{
    const struct lg_run *run = worker->run;
    const struct lg_spec *spec = run->spec;
    size_t own = run->workload->terminal_bytes;
    worker->user_count = share(spec->terminals, worker);
    worker->users = tb_allocate(worker->user_count, sizeof *worker->users);
    worker->own = tb_allocate(worker->user_count, own);
    worker->timers.heap = tb_allocate(worker->user_count, sizeof *worker->timers.heap);
    worker->waiting_end = &worker->waiting;
    /* A stream of the loop's first terminal, from the end that terminals do not reach. */
    tb_random_seed(&worker->random, spec->seed,
                   UINT64_MAX - spec->first_terminal - worker->index);
    for (size_t i = 0; i < worker->user_count; i++) {
        struct lg_terminal *terminal = &worker->users[i].terminal;
        terminal->number = spec->first_terminal + worker->index + (uint32_t)i * spec->threads;
        terminal->thinks = spec->think_time;
        terminal->own = own ? (char *)worker->own + i * own : NULL;
        tb_random_seed(&terminal->random, spec->seed, terminal->number);
        run->workload->terminal(run->work, terminal);
    }
}

static bool open_connections(struct lg_worker *worker)
{
    struct lg_run *run = worker->run;
    struct tb_error error = {""};
    size_t count = share(run->spec->connections, worker);
    worker->connections = tb_allocate(count, sizeof *worker->connections);
    for (size_t i = 0; i < count; i++) {
        struct lg_connection *connection = &worker->connections[i];
        connection->number = worker->index + (unsigned)i * run->spec->threads;
        connection->session =
            run->backend->connect(run->client, run->statements.all, run->statements.count,
                                  &connection->result, &error);
        if (!connection->session) {
            lg_run_fail(run, "connection %u of %u: %s", connection->number + 1,
                        run->spec->connections, error.text);
            return false;
        }
        connection->descriptor =
            run->backend->descriptor ? run->backend->descriptor(connection->session) : -1;
        connection->next = worker->free;
        worker->free = connection;
        worker->connection_count++;
        atomic_store_explicit(&worker->reply_ns, tb_monotonic_ns(), memory_order_relaxed);
        if (atomic_load(&run->stop))
            return false;
    }
    return true;
}

static bool wait_for_gate(struct lg_run *run)
{
    atomic_fetch_add(&run->connected, 1);
    lg_run_wake(run);
    pthread_mutex_lock(&run->lock);
    while (!run->gate_open && !run->failed)
        pthread_cond_wait(&run->gate, &run->lock);
    bool opened = run->gate_open && !run->failed;
    pthread_mutex_unlock(&run->lock);
    return opened;
}

static void turn_until_over(struct lg_worker *worker)
{
    worker->now_ns = tb_monotonic_ns();
    lg_note_window(worker, 0, worker->now_ns); /* without a ramp-up, it may have begun */
    if (lg_works_in_calls(worker)) {
        lg_work_in_calls(worker);
    } else {
        lg_users_start(worker);
        while (!over(worker))
            turn(worker);
    }
    if (worker->run->spec->operations)
        lg_note_window(worker, worker->now_ns, UINT64_MAX);
    while (worker->unpublished > 0 && !lg_stopped(worker) &&
           worker->now_ns < worker->run->deadline_ns)
        turn(worker);
    worker->now_ns = tb_monotonic_ns();
    lg_count_unfinished(worker);
}

void *lg_worker_main(void *argument)
{
    struct lg_worker *worker = argument;
    struct lg_run *run = worker->run;
    if (open_descriptors(worker) && open_connections(worker)) {
        open_users(worker);
        if (wait_for_gate(run))
            turn_until_over(worker);
    }
    atomic_fetch_add(&run->ended, 1);
    lg_run_wake(run);
    return NULL;
}

void lg_worker_free(struct lg_worker *worker)
{
    for (size_t i = 0; i < worker->connection_count; i++)
        worker->run->backend->disconnect(worker->connections[i].session);
    free(worker->timers.heap);
    free(worker->connections);
    free(worker->users);
    free(worker->own);
    free(worker->journal.bytes);
    free(worker->live);
    free(worker->live_seen);
    lg_tallies_free(worker->tallies, worker->run->workload->operation_count);
    close(worker->epoll);
    close(worker->timer);
    close(worker->stop_fd);
}

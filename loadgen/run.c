/*
 * The run as a whole: starts the event loops, gives them the common times, watches over
 * them, and puts together what they have counted.
 *
 *   connect all → gate → ramp-up → measured window → drain → result
 *
 * The loops know the phases by the clock alone; the main thread only announces them and
 * reads the processor time at the window's ends. It also notices what a loop cannot: a
 * server that no longer answers, and signals.
 */
#include "run.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#define LOOK_EVERY_NS (100 * TB_MILLISECOND)
/*
 * How long counters are read late at most, for connections whose transactions are long. Sessions
 * of PostgreSQL publish by themselves when a transaction ends a second after they last did.
 */
#define PUBLISH_NS TB_SECOND
/* Nothing is measured before all are connected. */
#define CONNECTING_TIMEOUT_NS (30 * (uint64_t)TB_SECOND)
/* How long loops may take to end when one has failed; what they counted is lost after it. */
#define FAREWELL_NS (500 * TB_MILLISECOND)

struct watch {
    struct lg_run *run;
    struct lg_worker *workers;
    struct lg_window window;
    int signals;
    uint64_t next_second_ns; /* the next "second" event; UINT64_MAX before the start */
    uint64_t started_ns;
    /* How long the server has sent nothing while this thread looked, and since when. */
    uint64_t silent_ns, reply_ns, looked_ns;
};

void lg_run_wake(struct lg_run *run)
{
    uint64_t one = 1;
    ssize_t written = write(run->wake, &one, sizeof one);
    (void)written; /* fails only where it is awake anyway */
}

bool lg_run_fail(struct lg_run *run, const char *format, ...)
{
    pthread_mutex_lock(&run->lock);
    bool first = !run->failed;
    if (first) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run->error.text, sizeof run->error.text, format, arguments);
        va_end(arguments);
        run->failed = true;
    }
    pthread_cond_broadcast(&run->gate);
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->stop, true);
    lg_run_wake(run);
    return first;
}

/* The latencies since the last second of all loops, encoded; the caller frees it. */
static char *latencies_since(const struct watch *watch)
{
    struct tb_coarse_hdr *sum = tb_allocate(1, sizeof *sum);
    for (unsigned w = 0; w < watch->run->spec->threads; w++)
        lg_live_add(watch->workers[w].live, watch->workers[w].live_seen, sum);
    char *text = tb_coarse_hdr_encode(sum);
    free(sum);
    return text;
}

static void announce(const struct watch *watch, const char *event)
{
    const struct lg_run *run = watch->run;
    json_t *counts = json_object();
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        uint64_t finished = 0;
        for (unsigned w = 0; w < run->spec->threads; w++)
            finished += atomic_load_explicit(&watch->workers[w].tallies[i].finished,
                                             memory_order_relaxed);
        json_object_set_new(counts, run->workload->operations[i].name, tb_integer(finished));
    }
    char *latencies = strcmp(event, "second") == 0 ? latencies_since(watch) : NULL;
    tb_progress_with(event, counts, latencies);
    free(latencies);
    json_decref(counts);
}

/*
 * No answer on any connection for too long, although calls wait for one. Time in which this
 * thread did not look either does not count: this whole host may have stood still, and the answers
 * may be there.
 */
static void check_for_stall(struct watch *watch, bool connecting)
{
    struct lg_run *run = watch->run;
    uint64_t last = watch->started_ns, now = tb_monotonic_ns(), most = 2 * LOOK_EVERY_NS;
    unsigned calls = 0;
    for (unsigned w = 0; w < run->spec->threads; w++) {
        unsigned in_flight = atomic_load_explicit(&watch->workers[w].in_flight, memory_order_relaxed);
        uint64_t replied = atomic_load_explicit(&watch->workers[w].reply_ns, memory_order_relaxed);
        calls += in_flight;
        if ((in_flight || connecting) && replied > last)
            last = replied;
    }
    bool same = last == watch->reply_ns && (calls || connecting);
    uint64_t since = same ? watch->looked_ns : last, silent = now > since ? now - since : 0;
    watch->silent_ns = (same ? watch->silent_ns : 0) + (silent < most ? silent : most);
    watch->reply_ns = last;
    watch->looked_ns = now;
    uint64_t limit = run->spec->stall_timeout_ns;
    if (connecting && limit > CONNECTING_TIMEOUT_NS)
        limit = CONNECTING_TIMEOUT_NS;
    if ((!calls && !connecting) || watch->silent_ns < limit)
        return;
    double seconds = (double)watch->silent_ns / (double)TB_SECOND;
    if (connecting)
        lg_run_fail(run, "the server accepted no connection for %.1f s", seconds);
    else if (lg_run_fail(run, "no answer from the server to %u calls for %.1f s: is a disk full, or "
                         "does everything wait for one lock?", calls, seconds))
        run->stalled = true;
}

static void take_signal(const struct watch *watch)
{
    struct signalfd_siginfo signal;
    if (read(watch->signals, &signal, sizeof signal) != sizeof signal)
        return;
    fprintf(stderr, "loadgen: ended by signal %u\n", signal.ssi_signo);
    fflush(stderr);
    _exit(128 + (int)signal.ssi_signo);
}

static bool done_waiting(const struct watch *watch, const atomic_uint *loops)
{
    return atomic_load(loops) == watch->run->spec->threads;
}

/* Sleeps until `until_ns`, until all loops are counted in `loops`, or until a failure. */
static bool wait_until(struct watch *watch, uint64_t until_ns, const atomic_uint *loops)
{
    struct lg_run *run = watch->run;
    bool connecting = loops == &run->connected;
    while (!atomic_load(&run->stop) && !done_waiting(watch, loops)) {
        uint64_t now = tb_monotonic_ns(), until = now + LOOK_EVERY_NS;
        if (now >= until_ns)
            break;
        if (now >= watch->next_second_ns) {
            announce(watch, "second");
            watch->next_second_ns += TB_SECOND;
        }
        until = until_ns < until ? until_ns : until;
        until = watch->next_second_ns < until ? watch->next_second_ns : until;
        struct timespec timeout = tb_timespec(until > now ? until - now : 0);
        struct pollfd polled[] = {{.fd = run->wake, .events = POLLIN},
                                  {.fd = watch->signals, .events = POLLIN}};
        ppoll(polled, 2, &timeout, NULL);
        uint64_t wakes;
        if (polled[0].revents && read(run->wake, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
            lg_run_fail(run, "eventfd: %s", strerror(errno));
        if (polled[1].revents)
            take_signal(watch);
        check_for_stall(watch, connecting);
    }
    return !atomic_load(&run->stop);
}

static bool set_times(struct lg_run *run)
{
    const struct lg_spec *spec = run->spec;
    run->begin_ns = tb_monotonic_ns() + TB_MILLISECOND; /* the loops wake up first */
    if (spec->start_at_realtime_ns) {
        struct tb_moment moment = tb_moment();
        int64_t ahead = (int64_t)(spec->start_at_realtime_ns - moment.realtime_ns);
        if (ahead < 0) {
            lg_run_fail(run, "start_at_realtime_ns: the last connection was established %.3f s "
                        "after that time; set a later one", -(double)ahead / (double)TB_SECOND);
            return false;
        }
        run->begin_ns = moment.monotonic_ns + (uint64_t)ahead;
    }
    run->measure_ns = run->begin_ns + spec->ramp_up_ns;
    run->end_ns = run->deadline_ns = UINT64_MAX;
    if (spec->duration_ns) {
        run->end_ns = run->measure_ns + spec->duration_ns;
        run->deadline_ns = run->end_ns + spec->drain_ns;
    }
    return true;
}

static void open_gate(struct lg_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->gate_open = true;
    pthread_cond_broadcast(&run->gate);
    pthread_mutex_unlock(&run->lock);
}

/* What an engine inside this process says of itself, where it does. */
static bool read_counters(struct lg_run *run, json_t **counters)
{
    struct tb_error error = {""};
    if (!run->backend->counters)
        return true;
    *counters = run->backend->counters(run->client, &error);
    if (!*counters)
        lg_run_fail(run, "counters: %s", error.text);
    return *counters != NULL;
}

/* The server's counters have what its sessions did until that end of the window, and no more. */
static bool wait_for_counters(struct watch *watch, int end)
{
    struct lg_run *run = watch->run;
    if (!run->backend->publish)
        return true;
    return wait_until(watch, tb_monotonic_ns() + PUBLISH_NS, &run->published[end]);
}

static bool pass_phases(struct watch *watch)
{
    struct lg_run *run = watch->run;
    if (!wait_until(watch, UINT64_MAX, &run->connected))
        return false;
    tb_progress("connected", NULL);
    if (!set_times(run))
        return false;
    open_gate(run);
    if (!wait_until(watch, run->begin_ns, &run->ended))
        return false;
    tb_progress("ramp_up", NULL);
    watch->next_second_ns = run->begin_ns + TB_SECOND;
    if (!wait_until(watch, run->measure_ns, &run->ended))
        return false;
    watch->window.process_cpu_ns -= tb_process_cpu_ns();
    if (!wait_for_counters(watch, 0))
        return false;
    announce(watch, "measuring");
    if (!read_counters(run, &watch->window.engine_begin))
        return false;
    if (!wait_until(watch, run->end_ns, &run->ended))
        return false;
    watch->window.process_cpu_ns += tb_process_cpu_ns();
    if (!read_counters(run, &watch->window.engine_end) || !wait_for_counters(watch, 1))
        return false;
    announce(watch, "draining");
    if (!wait_until(watch, UINT64_MAX, &run->ended))
        return false;
    announce(watch, "done");
    return true;
}

static void start_workers(struct lg_run *run, struct lg_worker *workers)
{
    for (unsigned i = 0; i < run->spec->threads; i++) {
        struct lg_worker *worker = &workers[i];
        worker->run = run;
        worker->index = i;
        worker->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        worker->tallies = lg_tallies_new(run->workload->operation_count,
                                         run->spec->intervals_per_histogram);
        worker->live = tb_allocate(1, sizeof *worker->live);
        worker->live_seen = tb_allocate(TB_COARSE_COUNTERS, sizeof *worker->live_seen);
        int failure = pthread_create(&worker->thread, NULL, lg_worker_main, worker);
        if (failure) {
            fprintf(stderr, "loadgen: thread %u of %u: %s\n", i + 1, run->spec->threads,
                    strerror(failure));
            exit(EXIT_FAILURE);
        }
    }
}

static void stop_workers(struct watch *watch)
{
    for (unsigned w = 0; w < watch->run->spec->threads; w++) {
        uint64_t one = 1;
        ssize_t written = write(watch->workers[w].stop_fd, &one, sizeof one);
        (void)written;
    }
    uint64_t until = tb_monotonic_ns() + FAREWELL_NS;
    while (!done_waiting(watch, &watch->run->ended) && tb_monotonic_ns() < until)
        usleep(1000);
}

/* SIGINT and SIGTERM come to the main thread alone, as readable data. */
static int hold_signals(void)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    return signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * A loop that does not end (its client library blocks) keeps what it has counted; the
 * result then has the error alone. Connections are left to the kernel's clean-up.
 */
static json_t *failed_result(struct watch *watch, json_t *notes)
{
    struct lg_run *run = watch->run;
    stop_workers(watch);
    bool all_ended = done_waiting(watch, &run->ended);
    for (unsigned w = 0; all_ended && w < run->spec->threads; w++)
        pthread_join(watch->workers[w].thread, NULL);
    return lg_result(run, all_ended ? watch->workers : NULL, &watch->window, notes);
}

/*
 * Connections stay until stdin ends: a server's processes that go with their connections
 * can be queried until then what the window has cost them.
 */
static void hold_connections(const struct watch *watch)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.fd = watch->signals, .events = POLLIN}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return;
        if (polled[1].revents)
            take_signal(watch);
        char rest[256]; /* white space after the spec */
        if (polled[0].revents && read(STDIN_FILENO, rest, sizeof rest) <= 0)
            return;
    }
}

static json_t *complete_result(struct watch *watch, json_t *notes)
{
    struct lg_run *run = watch->run;
    uint64_t last_done_ns = run->measure_ns;
    for (unsigned w = 0; w < run->spec->threads; w++) {
        struct lg_worker *worker = &watch->workers[w];
        pthread_join(worker->thread, NULL);
        if (worker->last_done_ns > last_done_ns)
            last_done_ns = worker->last_done_ns;
    }
    watch->window.measured_ns = run->spec->duration_ns;
    if (run->spec->operations) /* the last one's end is in the window */
        watch->window.measured_ns = last_done_ns + 1 - run->measure_ns;
    json_t *result = lg_result(run, watch->workers, &watch->window, notes);
    if (run->workload->finish)
        run->workload->finish(run->work, result);
    hold_connections(watch);
    for (unsigned w = 0; w < run->spec->threads; w++)
        lg_worker_free(&watch->workers[w]);
    free(watch->workers);
    return result;
}

static bool read_statements(struct lg_run *run)
{
    const struct lg_workload *workload = run->workload;
    size_t wanted[LG_MAX_OPERATIONS];
    for (size_t i = 0; i < workload->operation_count; i++)
        wanted[i] = workload->texts ? workload->texts(run->work, (int)i) : 1;
    if (!lg_statements_read(&run->statements, run->spec->statements, workload, wanted,
                            &run->error))
        return false;
    return !workload->prepare || workload->prepare(run->work, &run->statements, &run->error);
}

static bool open_all(struct lg_run *run, json_t *notes)
{
    const struct lg_spec *spec = run->spec;
    const struct lg_opening opening = {
        .params = spec->params,
        .seed = spec->seed,
        .terminals = spec->all_terminals,
        .alone = spec->terminals == spec->all_terminals,
        .shared = spec->shared,
        .key_value = run->backend->key_value,
        .notes = notes,
    };
    run->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!lg_schedule_open(run, &run->error))
        return false;
    run->work = run->workload->open(&opening, &run->error);
    if (!run->work || !read_statements(run))
        return false;
    if (spec->journal) {
        int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;
        run->journal = open(spec->journal, flags, 0600);
        if (run->journal < 0)
            return tb_fail(&run->error, "journal %s: %s", spec->journal, strerror(errno));
    }
    run->client = run->backend->open(spec->connection, &run->error);
    return run->client != NULL;
}

json_t *lg_run(const struct lg_spec *spec, const struct lg_workload *workload,
               const struct lg_backend *backend)
{
    /* Threads that do not end when a run has failed keep using it: it is never freed. */
    struct lg_run *run = tb_allocate(1, sizeof *run);
    *run = (struct lg_run){
        .spec = spec,
        .workload = workload,
        .backend = backend,
        .journal = -1,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .gate = PTHREAD_COND_INITIALIZER,
    };
    json_t *notes = json_object();
    struct watch watch = {
        .run = run,
        .signals = hold_signals(),
        .next_second_ns = UINT64_MAX,
        .started_ns = tb_monotonic_ns(),
    };
    if (!open_all(run, notes))
        return lg_result(run, NULL, &watch.window, notes);
    watch.workers = tb_allocate(spec->threads, sizeof *watch.workers);
    start_workers(run, watch.workers);
    if (!pass_phases(&watch))
        return failed_result(&watch, notes);
    json_t *result = complete_result(&watch, notes);
    backend->close(run->client);
    workload->close(run->work);
    if (run->journal >= 0 && close(run->journal) != 0)
        fprintf(stderr, "loadgen: journal %s: %s\n", spec->journal, strerror(errno));
    lg_statements_free(&run->statements);
    lg_schedule_close(run);
    close(watch.signals);
    close(run->wake);
    free(run);
    return result;
}

/*
 * One repeat of a measurement.
 *
 *   threads:  pin → begin → | warm-up → | start together → work, work, … → end
 *                       barrier     barrier
 *
 * A thread looks at the clock once a step, and a step is as many operations as take about
 * 200 µs. A thread ends by the clock, with the last of its operations, or (where it has
 * neither) with the last of the others'. As soon as one ends, the others are no longer
 * measured under the requested load: each notes what it had done by then, and rates
 * are taken from that.
 */
#include "run.h"

#include <sched.h>

#define STEP_NS 200000 /* reading the clock waits for every load under way */
#define MOST_STEP (UINT64_C(1) << 24)
#define PACED_STEP_NS 1000         /* where bytes a second are set: a step's time at that rate */
#define PACE_CATCH_UP_NS 100000    /* what was lost to an interruption is made good up to so much */
#define CALLS_CATCH_UP_NS 100000000 /* likewise of calls, which a device may delay */
#define START_AHEAD_NS 200000

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Threads that sleep do not take the processor from one another meanwhile. */
static void wait_until(const struct mb_thread *thread, uint64_t due_ns)
{
    struct timespec due = tb_timespec(due_ns);
    while (thread->job->kernel->by_calls && tb_monotonic_ns() < due_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    while (tb_monotonic_ns() < due_ns)
        relax();
}

/* To its processor; one that sleeps, to all of the job's, or to those of the program. */
static bool pin(struct mb_worker *worker)
{
    const struct mb_job *job = worker->thread.job;
    const json_t *named = json_object_get(job->given, "cpus");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (!job->kernel->by_calls)
        CPU_SET(worker->thread.cpu, &cpus);
    else if (json_array_size(named) == 0)
        return true;
    for (size_t i = 0; job->kernel->by_calls && i < json_array_size(named); i++)
        CPU_SET((size_t)json_integer_value(json_array_get(named, i)), &cpus);
    return sched_setaffinity(0, sizeof cpus, &cpus) == 0 ||
           tb_fail(&worker->thread.error, "processor %d: %s", worker->thread.cpu, strerror(errno));
}

/* ---- the loop of a thread ---- */

static bool paced(const struct mb_worker *worker)
{
    const struct mb_pace *pace = &worker->thread.job->pace;
    return pace->bytes_per_second || pace->pause_ns;
}

static uint64_t moved_bytes(const struct mb_counts *done)
{
    return done->read_bytes + done->written_bytes;
}

/* So many that a step takes 100 … 400 µs. Paced ones go in small steps: no bursts. */
static void adapt_step(struct mb_worker *worker, uint64_t took_ns)
{
    const struct mb_counts *done = &worker->thread.done;
    const struct mb_pace *pace = &worker->thread.job->pace;
    if (pace->pause_ns)
        worker->step = 1;
    else if (paced(worker)) {
        double bytes = (double)moved_bytes(done) / (double)done->operations;
        double budget = (double)pace->bytes_per_second * PACED_STEP_NS / 1e9;
        worker->step = bytes > 0 && bytes < budget ? (uint64_t)(budget / bytes) : 1;
    } else if (took_ns < STEP_NS / 2 && worker->step < MOST_STEP)
        worker->step *= 2;
    else if (took_ns > STEP_NS * 2 && worker->step > 1)
        worker->step /= 2;
}

/* Waits after a step as its pace requires; `due`: when the next one would begin. What a sleep uses of
 * the processor is no operation's. */
static uint64_t keep_pace(struct mb_worker *worker, uint64_t due, uint64_t moved,
                          uint64_t now)
{
    const struct mb_pace *pace = &worker->thread.job->pace;
    if (pace->pause_ns)
        due = now + pace->pause_ns;
    else {
        uint64_t catch_up = worker->thread.job->kernel->by_calls ? CALLS_CATCH_UP_NS
                                                                 : PACE_CATCH_UP_NS;
        due += (uint64_t)((double)moved * 1e9 / (double)pace->bytes_per_second);
        if (due + catch_up < now)
            due = now - catch_up;
    }
    bool sleeps = worker->thread.job->kernel->by_calls;
    uint64_t cpu_from = sleeps ? tb_thread_cpu_ns() : 0;
    wait_until(&worker->thread, due);
    if (sleeps)
        worker->thread.done.excluded_cpu_ns += tb_thread_cpu_ns() - cpu_from;
    return due;
}

/* Has the first of all threads ended? Then this one's figures are what they are now. */
static void note_window(struct mb_worker *worker, uint64_t now)
{
    if (worker->window_ns || !atomic_load_explicit(&worker->repeat->first_end_ns,
                                                   memory_order_relaxed))
        return;
    worker->window = worker->thread.done;
    worker->window_ns = now;
    worker->thread.recording = false;
}

static bool goes_on(const struct mb_worker *worker, uint64_t now, uint64_t stop_ns, bool warm_up)
{
    struct mb_repeat *repeat = worker->repeat;
    if ((stop_ns && now >= stop_ns) || *worker->thread.error.text)
        return false;
    if (warm_up)
        return true;
    if (worker->operations)
        return worker->thread.done.operations < worker->operations;
    return stop_ns || atomic_load_explicit(&repeat->counted_left, memory_order_relaxed) > 0;
}

/* Steps until it is time to end. */
static void loop(struct mb_worker *worker, uint64_t stop_ns, bool warm_up)
{
    struct mb_thread *thread = &worker->thread;
    const struct mb_kernel *kernel = thread->job->kernel;
    uint64_t now = tb_monotonic_ns(), due = now;
    while (goes_on(worker, now, stop_ns, warm_up)) {
        uint64_t step = worker->step, before = moved_bytes(&thread->done), began = now;
        if (!warm_up && worker->operations && worker->operations - thread->done.operations < step)
            step = worker->operations - thread->done.operations;
        kernel->work(thread, step);
        now = tb_monotonic_ns();
        adapt_step(worker, now - began);
        if (!warm_up)
            note_window(worker, now);
        if (paced(worker)) {
            due = keep_pace(worker, due, moved_bytes(&thread->done) - before, now);
            now = tb_monotonic_ns();
        }
    }
}

static void end_measured(struct mb_worker *worker)
{
    struct mb_repeat *repeat = worker->repeat;
    uint_fast64_t none = 0;
    worker->end_ns = tb_monotonic_ns();
    atomic_compare_exchange_strong(&repeat->first_end_ns, &none, worker->end_ns);
    if (worker->operations)
        atomic_fetch_sub(&repeat->counted_left, 1);
    note_window(worker, worker->end_ns);
}

/*
 * For a reader that counts what the host does meanwhile. Where it is awaited, all threads wait in the
 * barrier, so that neither warm-up nor preparation is in what it counts.
 */
static void report_window(const struct mb_repeat *repeat, const char *event)
{
    const struct mb_measurement *measurement = repeat->measurement;
    const struct mb_spec *spec = measurement->jobs[0].spec;
    if (!spec->report_windows)
        return;
    json_t *counts = json_pack("{s:s}", "measurement", measurement->name);
    tb_progress(event, counts);
    json_decref(counts);
    if (spec->await_windows)
        getchar(); /* at the end of stdin, too: a reader without answers */
}

/* The last thread at the barrier says when all start; the others learn it after the next. */
static void agree_on_start(struct mb_repeat *repeat)
{
    if (pthread_barrier_wait(&repeat->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        report_window(repeat, "window_begins");
        uint64_t duration = repeat->measurement->duration_ns;
        repeat->start_ns = tb_monotonic_ns() + START_AHEAD_NS;
        repeat->stop_ns = duration ? repeat->start_ns + duration : 0;
    }
    pthread_barrier_wait(&repeat->barrier);
}

static void measure(struct mb_worker *worker)
{
    struct mb_thread *thread = &worker->thread;
    struct mb_repeat *repeat = worker->repeat;
    thread->done = (struct mb_counts){.operations = 0};
    thread->recording = true;
    agree_on_start(repeat);
    wait_until(thread, repeat->start_ns);
    struct mb_faults before = mb_thread_faults();
    worker->begin_ns = tb_monotonic_ns();
    uint64_t cpu_ns = tb_thread_cpu_ns();
    loop(worker, repeat->stop_ns, false);
    end_measured(worker);
    worker->cpu_ns = tb_thread_cpu_ns() - cpu_ns - thread->done.excluded_cpu_ns;
    struct mb_faults after = mb_thread_faults();
    worker->faults.minor = after.minor - before.minor;
    worker->faults.major = after.major - before.major;
    thread->recording = false;
}

static void *live(void *of)
{
    struct mb_worker *worker = of;
    struct mb_thread *thread = &worker->thread;
    struct mb_repeat *repeat = worker->repeat;
    const struct mb_kernel *kernel = thread->job->kernel;
    bool pinned = pin(worker);
    if (!pinned)
        atomic_store(&repeat->failed, true);
    else if (kernel->begin)
        kernel->begin(thread);
    pthread_barrier_wait(&repeat->barrier);
    uint64_t warm_up = repeat->measurement->warm_up_ns;
    bool whole = !atomic_load(&repeat->failed);
    if (whole && warm_up)
        loop(worker, tb_monotonic_ns() + warm_up, true);
    pthread_barrier_wait(&repeat->barrier);
    if (whole)
        measure(worker);
    if (pinned && kernel->end)
        kernel->end(thread);
    free(thread->own);
    return NULL;
}

/* ---- the repeat ---- */

static void prepare_worker(struct mb_worker *worker, struct mb_repeat *repeat,
                           const struct mb_job *job, uint32_t index)
{
    uint32_t sharers = job->threads / job->partitions, partition = index / sharers;
    uint64_t part = mb_part_bytes(job, job->range_bytes);
    *worker = (struct mb_worker){.repeat = repeat, .step = 1};
    worker->operations = job->operations / job->threads + (index < job->operations % job->threads);
    worker->thread = (struct mb_thread){
        .job = job,
        .index = index,
        .repeat = repeat->number,
        .cpu = job->cpus[index],
        .base = job->base ? job->base + partition * part : NULL,
        .range_bytes = part,
        .sharers = sharers,
        .place = index % sharers,
    };
    uint64_t stream = (uint64_t)repeat->number << 32 | index;
    tb_random_seed(&worker->thread.random, job->seed, stream);
    if (job->kernel->has_latency)
        tb_hdr_init(&worker->thread.latency);
    if (worker->operations)
        atomic_fetch_add(&repeat->counted_left, 1);
}

static void prepare(struct mb_repeat *repeat, const struct mb_measurement *measurement,
                    uint32_t number)
{
    *repeat = (struct mb_repeat){.measurement = measurement, .number = number, .stolen_ns = -1};
    for (size_t j = 0; j < measurement->job_count; j++)
        repeat->worker_count += measurement->jobs[j].threads;
    repeat->workers = tb_allocate(repeat->worker_count, sizeof *repeat->workers);
    uint32_t at = 0;
    for (size_t j = 0; j < measurement->job_count; j++)
        for (uint32_t i = 0; i < measurement->jobs[j].threads; i++)
            prepare_worker(&repeat->workers[at++], repeat, &measurement->jobs[j], i);
    pthread_barrier_init(&repeat->barrier, NULL, repeat->worker_count);
}

void mb_repeat_free(struct mb_repeat *repeat)
{
    for (uint32_t i = 0; i < repeat->worker_count; i++)
        tb_hdr_free(&repeat->workers[i].thread.latency);
    free(repeat->workers);
    pthread_barrier_destroy(&repeat->barrier);
}

/* Time that the hypervisor gave to others, of the processors that the threads run on. */
static int64_t stolen_ns(const struct mb_repeat *repeat)
{
    FILE *file = fopen("/proc/stat", "r");
    char line[512];
    int cpu;
    unsigned long long ticks;
    int64_t sum = file ? 0 : -1, tick_ns = (int64_t)TB_SECOND / sysconf(_SC_CLK_TCK);
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %*u %llu", &cpu, &ticks) != 2)
            continue;
        bool used = false;
        for (uint32_t i = 0; i < repeat->worker_count; i++)
            used = used || repeat->workers[i].thread.cpu == cpu;
        sum += used ? (int64_t)ticks * tick_ns : 0;
    }
    if (file)
        fclose(file);
    return sum;
}

/* Threads that never came to be would be waited for at the barrier: nothing is left then. */
static void start(struct mb_worker *worker)
{
    int failed = pthread_create(&worker->id, NULL, live, worker);
    if (!failed)
        return;
    fprintf(stderr, "microbench: thread %u of job %s: %s\n", worker->thread.index,
            worker->thread.job->name, strerror(failed));
    _exit(1);
}

bool mb_repeat_run(struct mb_repeat *repeat, const struct mb_measurement *measurement,
                   uint32_t number, struct tb_error *error)
{
    prepare(repeat, measurement, number);
    mb_cpu_measure_core();
    double core_hz = mb_cpu.core_hz;
    int64_t stolen = stolen_ns(repeat);
    for (uint32_t i = 0; i < repeat->worker_count; i++)
        start(&repeat->workers[i]);
    for (uint32_t i = 0; i < repeat->worker_count; i++)
        pthread_join(repeat->workers[i].id, NULL);
    report_window(repeat, "window_ended");
    mb_cpu_measure_core(); /* the faster one: what runs now may have interrupted the other */
    repeat->core_hz = core_hz > mb_cpu.core_hz ? core_hz : mb_cpu.core_hz;
    repeat->stolen_ns = stolen < 0 ? -1 : stolen_ns(repeat) - stolen;
    for (uint32_t i = 0; i < repeat->worker_count; i++) {
        struct mb_worker *worker = &repeat->workers[i];
        *error = worker->thread.error;
        if (*error->text)
            return tb_fail_within(error, "job %.100s: ", worker->thread.job->name);
        repeat->begin_ns = i == 0 || worker->begin_ns < repeat->begin_ns ? worker->begin_ns
                                                                         : repeat->begin_ns;
    }
    for (uint32_t i = 0; i < repeat->worker_count; i++)
        if (repeat->workers[i].end_ns - repeat->begin_ns > repeat->duration_ns)
            repeat->duration_ns = repeat->workers[i].end_ns - repeat->begin_ns;
    for (size_t j = 0; j < measurement->job_count; j++) {
        const struct mb_job *job = &measurement->jobs[j];
        if (job->kernel->check && !job->kernel->check(job, error))
            return false;
    }
    return true;
}

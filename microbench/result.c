/* From counts to figures: totals, plausibility, and the result's JSON. */
#include "run.h"

#define TURBO 1.5 /* a core may be so much faster under way than when its clock was measured */

/* What all threads of a job did together. */
struct totals {
    struct mb_counts all, window;
    uint64_t begin_ns, end_ns, window_ns; /* window_ns: the longest of its threads' */
    double operations_per_second, bytes_per_second;
};

static void add(struct mb_counts *sum, const struct mb_counts *more)
{
    sum->operations += more->operations;
    sum->read_bytes += more->read_bytes;
    sum->written_bytes += more->written_bytes;
    sum->second_bytes += more->second_bytes;
}

static struct totals totals_of(const struct mb_repeat *repeat, const struct mb_job *job)
{
    struct totals totals = {.begin_ns = UINT64_MAX};
    for (uint32_t i = 0; i < repeat->worker_count; i++) {
        const struct mb_worker *worker = &repeat->workers[i];
        if (worker->thread.job != job)
            continue;
        uint64_t ran_ns = worker->window_ns - worker->begin_ns - worker->window.excluded_ns;
        double seconds = (double)(ran_ns ? ran_ns : 1) / 1e9;
        add(&totals.all, &worker->thread.done);
        add(&totals.window, &worker->window);
        totals.begin_ns = worker->begin_ns < totals.begin_ns ? worker->begin_ns : totals.begin_ns;
        totals.end_ns = worker->end_ns > totals.end_ns ? worker->end_ns : totals.end_ns;
        totals.window_ns = ran_ns > totals.window_ns ? ran_ns : totals.window_ns;
        totals.operations_per_second += (double)worker->window.operations / seconds;
        totals.bytes_per_second +=
            (double)(worker->window.read_bytes + worker->window.written_bytes) / seconds;
    }
    return totals;
}

bool mb_plausible(const struct mb_job *job, const struct mb_counts *done, uint64_t duration_ns,
                  double core_hz, struct tb_error *error)
{
    static const struct mb_ceiling widest = {.load = 3 * 64, .store = 2 * 64};
    struct mb_ceiling ceiling = job->kernel->ceiling ? job->kernel->ceiling(job) : widest;
    double cycles = (double)(duration_ns + 1000) * TURBO * core_hz / 1e9;
    double loads = (double)done->read_bytes / cycles, stores = (double)done->written_bytes / cycles;
    if (loads <= ceiling.load && stores <= ceiling.store)
        return true;
    return tb_fail(error, "job %.100s: implausible: a thread %s %.1f bytes in each of the core's "
                          "cycles, more than its ports can carry (%u): its loop is wrong",
                   job->name, loads > ceiling.load ? "loaded" : "stored",
                   loads > ceiling.load ? loads : stores,
                   loads > ceiling.load ? ceiling.load : ceiling.store);
}

static json_t *latency_of(const struct mb_repeat *repeat, const struct mb_job *job)
{
    if (!job->kernel->has_latency)
        return json_null();
    struct tb_hdr sum;
    tb_hdr_init(&sum);
    for (uint32_t i = 0; i < repeat->worker_count; i++)
        if (repeat->workers[i].thread.job == job)
            tb_hdr_add(&sum, &repeat->workers[i].thread.latency);
    char *text = sum.total ? tb_hdr_encode(&sum) : NULL;
    json_t *hdr = text ? json_string(text) : json_null();
    free(text);
    tb_hdr_free(&sum);
    return hdr;
}

static json_t *threads_of(const struct mb_repeat *repeat, const struct mb_job *job)
{
    json_t *threads = json_array();
    for (uint32_t i = 0; i < repeat->worker_count; i++) {
        const struct mb_worker *worker = &repeat->workers[i];
        const struct mb_counts *done = &worker->thread.done;
        if (worker->thread.job != job)
            continue;
        json_array_append_new(
            threads,
            json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu", worker->thread.cpu,
                      "begin_ns", tb_integer(worker->begin_ns), "end_ns", tb_integer(worker->end_ns),
                      "operations", tb_integer(done->operations), "read_bytes",
                      tb_integer(done->read_bytes), "written_bytes", tb_integer(done->written_bytes),
                      "cpu_ns", tb_integer(worker->cpu_ns), "excluded_cpu_ns",
                      tb_integer(done->excluded_cpu_ns), "minor_faults",
                      tb_integer(worker->faults.minor), "major_faults",
                      tb_integer(worker->faults.major)));
    }
    return threads;
}

static json_t *job_result(const struct mb_repeat *repeat, const struct mb_job *job)
{
    struct totals totals = totals_of(repeat, job);
    struct mb_persist persist;
    const char *why = NULL, *durable = NULL;
    if (job->kernel->persists && job->kernel->persists(job, &persist))
        durable = mb_durable_job(job, &persist, &why);
    json_t *facts = json_object();
    if (job->kernel->report)
        job->kernel->report(job, facts);
    json_t *window = json_pack("{s:o, s:o, s:o, s:o}", "duration_ns", tb_integer(totals.window_ns),
                               "operations", tb_integer(totals.window.operations), "read_bytes",
                               tb_integer(totals.window.read_bytes), "written_bytes",
                               tb_integer(totals.window.written_bytes));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:s?, s:s?, s:o, s:o}",
        "name", job->name, "kind", job->kernel->name, "target", job->target->name, "operations",
        tb_integer(totals.all.operations), "read_bytes", tb_integer(totals.all.read_bytes),
        "written_bytes", tb_integer(totals.all.written_bytes), "second_bytes",
        tb_integer(totals.all.second_bytes), "duration_ns",
        tb_integer(totals.end_ns - totals.begin_ns), "window", window, "operations_per_second",
        totals.operations_per_second, "bandwidth_bytes_per_second", totals.bytes_per_second,
        "latency_hdr", latency_of(repeat, job), "durable", durable, "durable_why", why, "facts",
        facts, "threads", threads_of(repeat, job));
}

json_t *mb_repeat_result(const struct mb_repeat *repeat, struct tb_error *error)
{
    const struct mb_measurement *measurement = repeat->measurement;
    for (uint32_t i = 0; i < repeat->worker_count; i++) {
        const struct mb_worker *worker = &repeat->workers[i];
        if (!mb_plausible(worker->thread.job, &worker->thread.done,
                          worker->end_ns - worker->begin_ns, repeat->core_hz, error))
            return NULL;
    }
    json_t *jobs = json_array();
    for (size_t j = 0; j < measurement->job_count; j++)
        json_array_append_new(jobs, job_result(repeat, &measurement->jobs[j]));
    return json_pack("{s:o, s:o, s:o, s:f, s:o}", "begin_ns", tb_integer(repeat->begin_ns),
                     "duration_ns", tb_integer(repeat->duration_ns), "stolen_ns",
                     repeat->stolen_ns < 0 ? json_null() : tb_integer((uint64_t)repeat->stolen_ns),
                     "core_hz", repeat->core_hz, "jobs", jobs);
}

static json_t *names_of(const char *const *names, const bool *has, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (has[i])
            json_array_append_new(list, json_string(names[i]));
    return list;
}

json_t *mb_cpu_facts(void)
{
    return json_pack("{s:s, s:o, s:o, s:f, s:f, s:b, s:f, s:o}", "model", mb_cpu.model, "isa",
                     names_of(mb_isa_names, mb_cpu.isa, MB_ISAS), "flush",
                     names_of(mb_flush_names, mb_cpu.flush, MB_FLUSHES), "tsc_hz", mb_cpu.clock_hz,
                     "stamp_step_ns", (double)mb_cpu.clock_step * 1e9 / mb_cpu.clock_hz,
                     "invariant_tsc", mb_cpu.invariant_clock, "core_hz", mb_cpu.core_hz,
                     "llc_bytes", tb_integer(mb_cpu.llc_bytes));
}

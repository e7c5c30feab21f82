/* The result document: harness/store/schemas/loadgen-result.json. */
#include "run.h"

#define CLOSED_LOOP                                                                            \
    "closed loop: a terminal that waits for an answer starts no operation, so these latencies " \
    "omit operations that would have started during a stall (coordinated omission); "          \
    "an open loop at a set rate includes them"
#define OPEN_LOOP                                                                              \
    "open loop: starts evenly spaced, latency from the intended start"

static json_t *operation_result(const struct lg_tally *tally)
{
    char *hdr = tb_hdr_encode(&tally->latency);
    json_t *operation = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "count", tb_integer(tally->count),
        "not_found_count", tb_integer(tally->not_found), "skipped_count",
        tb_integer(tally->skipped), "rolled_back_count", tb_integer(tally->rolled_back),
        "retried_count", tb_integer(tally->retried), "unfinished_count",
        tb_integer(tally->unfinished), "latency_hdr", hdr);
    free(hdr);
    return operation;
}

static json_t *series_of(const struct lg_run *run, const struct lg_tally *tallies,
                         uint64_t measured_ns)
{
    uint64_t interval = run->spec->series_interval_ns;
    json_t *series = json_array();
    for (uint64_t i = 0; i * interval < measured_ns; i++) {
        json_t *counts = json_object();
        for (size_t op = 0; op < run->workload->operation_count; op++) {
            const char *name = run->workload->operations[op].name;
            uint64_t done = i < tallies[op].intervals ? tallies[op].series[i] : 0;
            json_object_set_new(counts, name, tb_integer(done));
        }
        json_array_append_new(series, json_pack("{s:o, s:o}", "monotonic_ns",
                                                tb_integer(run->measure_ns + i * interval),
                                                "counts", counts));
    }
    return series;
}

/* Of one stretch, by operation; none of an operation that was not done in it. */
static json_t *histograms_of(const struct lg_run *run, const struct lg_worker *workers,
                             size_t stretch)
{
    static const struct tb_coarse_hdr empty;
    struct tb_coarse_hdr *sum = tb_allocate(1, sizeof *sum);
    json_t *histograms = json_object();
    for (size_t op = 0; op < run->workload->operation_count; op++) {
        *sum = empty;
        for (unsigned w = 0; w < run->spec->threads; w++)
            lg_tally_latencies(&workers[w].tallies[op], stretch, sum);
        if (memcmp(sum, &empty, sizeof empty) == 0)
            continue;
        char *hdr = tb_coarse_hdr_encode(sum);
        json_object_set_new(histograms, run->workload->operations[op].name, json_string(hdr));
        free(hdr);
    }
    free(sum);
    return histograms;
}

static json_t *latencies_of(const struct lg_run *run, const struct lg_worker *workers,
                            uint64_t measured_ns)
{
    const struct lg_spec *spec = run->spec;
    uint64_t interval = spec->series_interval_ns, each = spec->intervals_per_histogram;
    uint64_t intervals = measured_ns / interval + (measured_ns % interval > 0);
    json_t *latencies = json_array();
    for (uint64_t i = 0; workers && i * each < intervals; i++)
        json_array_append_new(latencies,
                              json_pack("{s:o, s:o}", "monotonic_ns",
                                        tb_integer(run->measure_ns + i * each * interval), "hdr",
                                        histograms_of(run, workers, i)));
    return latencies;
}

static json_t *errors_of(const struct lg_codes *codes)
{
    json_t *errors = json_object();
    for (size_t i = 0; i < codes->count; i++)
        json_object_set_new(errors, codes->of[i].code, tb_integer(codes->of[i].times));
    return errors;
}

static json_t *offered_of(const struct lg_run *run, const struct lg_worker *workers)
{
    if (!run->spec->open_loop || !workers)
        return json_null();
    uint64_t count = 0, begin = 0, end = 0, flying_begin = 0, flying_end = 0;
    for (unsigned w = 0; w < run->spec->threads; w++) {
        count += workers[w].offered;
        begin += workers[w].backlog_begin;
        end += workers[w].backlog_end;
        flying_begin += workers[w].in_flight_begin;
        flying_end += workers[w].in_flight_end;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "count", tb_integer(count), "backlog_begin",
                     tb_integer(begin), "backlog_end", tb_integer(end), "in_flight_begin",
                     tb_integer(flying_begin), "in_flight_end", tb_integer(flying_end));
}

static void add_counts(json_t *result, const struct lg_run *run, const struct lg_worker *workers,
                       uint64_t measured_ns)
{
    size_t operation_count = run->workload->operation_count;
    struct lg_tally *total = lg_tallies_new(operation_count, 1);
    struct lg_codes codes = {0};
    for (unsigned w = 0; workers && w < run->spec->threads; w++) {
        for (size_t op = 0; op < operation_count; op++)
            lg_tally_add(&total[op], &workers[w].tallies[op]);
        for (size_t i = 0; i < workers[w].codes.count; i++)
            lg_codes_count(&codes, workers[w].codes.of[i].code, workers[w].codes.of[i].times);
    }
    json_t *operations = json_object();
    for (size_t op = 0; op < operation_count; op++)
        json_object_set_new(operations, run->workload->operations[op].name,
                            operation_result(&total[op]));
    json_object_set_new(result, "operations", operations);
    json_object_set_new(result, "series", series_of(run, total, measured_ns));
    json_object_set_new(result, "latencies", latencies_of(run, workers, measured_ns));
    json_object_set_new(result, "errors", errors_of(&codes));
    json_object_set_new(result, "offered", offered_of(run, workers));
    lg_tallies_free(total, operation_count);
}

void lg_result_add_engine(json_t *result, json_t *begin, json_t *end)
{
    json_t *ends[] = {begin, end};
    json_t *numbers[] = {json_object(), json_object()}, *texts = json_object();
    for (size_t i = 0; i < 2; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(ends[i], name, value)
            json_object_set(json_is_number(value) ? numbers[i] : texts, name, value);
        json_decref(ends[i]);
    }
    json_object_set_new(result, "engine", json_pack("{s:o, s:o, s:o}", "begin", numbers[0], "end",
                                                    numbers[1], "text", texts));
}

/*
 * Of this program alone: what getrusage reports includes what the process that started it had,
 * as that is kept over exec.
 */
static uint64_t memory_peak_bytes(void)
{
    unsigned long long kib = 0;

    tb_scan_file("/proc/self/status", "VmHWM: %llu kB", &kib);
    return (uint64_t)kib * 1024;
}

json_t *lg_result(const struct lg_run *run, const struct lg_worker *workers,
                  const struct lg_window *window, json_t *notes)
{
    bool complete = workers && !run->failed;
    const char *status = complete ? "complete" : run->stalled ? "stalled" : "failed";
    json_object_set_new(notes, "loop", json_string(run->spec->open_loop ? OPEN_LOOP : CLOSED_LOOP));
    json_t *threads = json_array();
    for (unsigned w = 0; complete && w < run->spec->threads; w++)
        json_array_append_new(threads, tb_integer(workers[w].cpu_ns));
    json_t *result = json_pack(
        "{s:i, s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 1, "status",
        status, "task", "run", "clock", tb_clocks(), "version", LOADGEN_VERSION,
        "started_monotonic_ns", tb_integer(run->measure_ns), "measured_ns",
        tb_integer(window->measured_ns), "client_cpu_ns",
        tb_integer(complete ? window->process_cpu_ns : 0), "threads_cpu_ns", threads,
        "memory_peak_bytes", tb_integer(memory_peak_bytes()), "notes", notes);
    json_object_set_new(result, "error",
                        complete ? json_null() : json_string(run->error.text));
    size_t published = 0;
    for (unsigned w = 0; workers && run->backend->publish && w < run->spec->threads; w++)
        published += workers[w].connection_count - workers[w].unpublished;
    json_object_set_new(result, "published_sessions", tb_integer(published));
    add_counts(result, run, workers, window->measured_ns);
    if (window->engine_begin && window->engine_end)
        lg_result_add_engine(result, window->engine_begin, window->engine_end);
    return result;
}

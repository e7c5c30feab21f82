/*
 * microbench: measure memory, persistent memory and mapped files.
 *
 *   microbench - < spec.json > result.json 3> progress.jsonl
 *   microbench --check < spec.json      check the spec; nothing is mapped or measured
 *   microbench --version                print version and processor as JSON
 *
 * Exit status: 0 complete; 1 failed, with the reason in the result and on stderr; 2 the
 * spec cannot be run as it is, nothing was measured.
 */
#include "run.h"
#include "target.h"

#include <sched.h>

enum { FAILED = 1, USAGE = 2 };

static int refuse(const struct tb_error *error)
{
    fprintf(stderr, "microbench: %s\n", error->text);
    return USAGE;
}

static void note(json_t *result, const char *format, const char *name)
{
    struct tb_text text = {0};
    tb_text_printf(&text, format, name);
    json_array_append_new(json_object_get(result, "notes"), json_string(text.bytes));
    free(text.bytes);
}

static bool map_targets(struct mb_spec *spec, json_t *result, struct tb_error *error)
{
    for (size_t i = 0; i < spec->target_count; i++) {
        struct mb_target *target = &spec->targets[i];
        if (!mb_target_map(target, error))
            return false;
        json_t *facts = mb_target_facts(target);
        json_int_t huge = json_integer_value(json_object_get(facts, "huge_bytes"));
        json_object_set_new(json_object_get(result, "targets"), target->name, facts);
        if (target->base && target->kind == MB_DRAM && target->pages == MB_HUGE &&
            (uint64_t)huge < target->size_bytes / MB_HUGE_PAGE * MB_HUGE_PAGE)
            note(result, "target %s: not all of it is on huge pages, as requested (huge_bytes): its "
                         "figures include TLB misses",
                 target->name);
    }
    for (size_t m = 0; m < spec->measurement_count; m++)
        for (size_t j = 0; j < spec->measurements[m].job_count; j++) {
            struct mb_job *job = &spec->measurements[m].jobs[j];
            if (job->target->base)
                job->base = job->target->base + job->offset_bytes;
        }
    return true;
}

/* Threads of a measurement that share a processor do not run at the same time. */
static void note_sharing(const struct mb_measurement *measurement, json_t *result)
{
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (size_t j = 0; j < measurement->job_count; j++)
        for (uint32_t i = 0; i < measurement->jobs[j].threads; i++) {
            if (measurement->jobs[j].kernel->by_calls) /* they sleep while they wait */
                break;
            int cpu = measurement->jobs[j].cpus[i];
            if (CPU_ISSET(cpu, &taken)) {
                note(result, "measurement %s: several threads shared a processor",
                     measurement->name);
                return;
            }
            CPU_SET(cpu, &taken);
        }
}

static bool run_repeat(const struct mb_measurement *measurement, uint32_t number,
                       json_t *repeats, struct tb_error *error)
{
    struct mb_repeat repeat;
    json_t *counts = json_pack("{s:s, s:i}", "measurement", measurement->name, "repeat",
                               (int)number + 1);
    tb_progress("measuring", counts);
    json_decref(counts);
    json_t *result = mb_repeat_run(&repeat, measurement, number, error)
                         ? mb_repeat_result(&repeat, error)
                         : NULL;
    mb_repeat_free(&repeat);
    if (result)
        json_array_append_new(repeats, result);
    return result != NULL;
}

/*
 * Report the result with the last measurement alone, from which a run can be resumed. Its reader
 * stores it and answers with a byte, so that nothing is stored while the next one is measured.
 */
static void report(json_t *result)
{
    json_t *measurements = json_object_get(result, "measurements");
    json_t *last = json_array_get(measurements, json_array_size(measurements) - 1);
    json_t *alone = json_copy(result);
    json_object_set_new(alone, "measurements", json_pack("[O]", last));
    if (tb_progress_whole("measured", alone))
        getchar(); /* at the end of stdin, too: a reader without answers */
    json_decref(alone);
}

static bool run_measurement(struct mb_measurement *measurement, json_t *result,
                            struct tb_error *error)
{
    uint64_t begin = tb_monotonic_ns();
    for (size_t j = 0; j < measurement->job_count; j++) {
        struct mb_job *job = &measurement->jobs[j];
        if (job->kernel->prepare && !job->kernel->prepare(job, error))
            return false;
    }
    json_t *repeats = json_array();
    json_array_append_new(json_object_get(result, "measurements"),
                          json_pack("{s:s, s:I, s:o}", "name", measurement->name, "prepare_ns",
                                    (json_int_t)(tb_monotonic_ns() - begin), "repeats", repeats));
    note_sharing(measurement, result);
    for (uint32_t i = 0; i < measurement->repeats; i++)
        if (!run_repeat(measurement, i, repeats, error) || !mb_cpu_clock_kept(error))
            return false;
    report(result);
    return true;
}

static bool run_all(struct mb_spec *spec, json_t *result, struct tb_error *error)
{
    bool mapped = map_targets(spec, result, error);
    mb_cpu_settle();
    json_object_set_new(result, "cpu", mb_cpu_facts());
    if (!mapped)
        return false;
    if (!mb_cpu.invariant_clock)
        note(result, "the processor (%s) does not report an invariant time stamp counter, as under "
                     "some hypervisors: it was compared with the clock after each measurement",
             mb_cpu.model);
    for (size_t m = 0; m < spec->measurement_count; m++)
        if (!run_measurement(&spec->measurements[m], result, error))
            return tb_fail_within(error, "measurement %.100s: ", spec->measurements[m].name);
    return true;
}

/* A result that cannot be written is a failure, whatever it says. */
static int measure(struct mb_spec *spec, struct tb_error *error)
{
    json_t *result = json_pack("{s:i, s:s, s:n, s:s, s:o, s:{}, s:[], s:[]}", "schema", 2, "status",
                               "complete", "error", "version", MICROBENCH_VERSION, "clock",
                               tb_clocks(), "targets", "measurements", "notes");
    bool complete = run_all(spec, result, error);
    if (!complete) {
        fprintf(stderr, "microbench: %s\n", error->text);
        json_object_set_new(result, "status", json_string("failed"));
        json_object_set_new(result, "error", json_string(error->text));
    }
    return tb_print(result, "microbench") && complete ? EXIT_SUCCESS : FAILED;
}

static int print_version(void)
{
    mb_cpu_find();
    mb_cpu_settle();
    json_t *version = json_pack("{s:s, s:o}", "version", MICROBENCH_VERSION, "cpu",
                                mb_cpu_facts());
    return tb_print(version, "microbench") ? EXIT_SUCCESS : FAILED;
}

int main(int argc, char **argv)
{
    struct tb_error error = {""};
    struct mb_spec spec;
    tb_progress_open();
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return print_version();
    bool check = argc == 2 && strcmp(argv[1], "--check") == 0;
    if (!check && (argc != 2 || strcmp(argv[1], "-") != 0)) {
        fprintf(stderr, "usage: microbench -|--check < spec.json > result.json, microbench --version\n");
        return USAGE;
    }
    json_t *document = tb_read_document(&error);
    if (!document)
        return refuse(&error);
    mb_cpu_find();
    int status = !mb_spec_read(&spec, document, &error) ? refuse(&error)
                 : check                                ? EXIT_SUCCESS
                                                        : measure(&spec, &error);
    mb_spec_free(&spec);
    return status;
}

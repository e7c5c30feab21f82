/*
 * Reading the spec. Errors name the measurement and the job before the key.
 * docs/microbench.md has an example.
 */
#include "kernel.h"
#include "target.h"

#include <sched.h>

#define LONGEST_NS (INT64_C(7) * 24 * 3600 * (int64_t)TB_SECOND)
#define MOST_THREADS 4096

struct mb_target *mb_spec_target(const struct mb_spec *spec, const char *name)
{
    for (size_t i = 0; name && i < spec->target_count; i++)
        if (strcmp(spec->targets[i].name, name) == 0)
            return &spec->targets[i];
    return NULL;
}

/* The range in the target: both in lines, and the whole of it inside. */
static bool read_range(const json_t *given, const struct mb_target *target, uint64_t *offset,
                       uint64_t *range, struct tb_error *error)
{
    const json_t *at = json_object_get(given, "offset_bytes");
    const json_t *bytes = json_object_get(given, "range_bytes");
    *offset = (uint64_t)json_integer_value(at);
    if (*offset >= target->size_bytes || *offset % MB_LINE != 0)
        return tb_fail(error, "offset_bytes: must be a multiple of %d and less than the target's "
                              "%" PRIu64 " bytes", (int)MB_LINE, target->size_bytes);
    bool given_range = json_is_integer(bytes);
    *range = given_range ? (uint64_t)json_integer_value(bytes) : target->size_bytes - *offset;
    if (*range > 0 && *range % MB_LINE == 0 && *range <= target->size_bytes - *offset)
        return true;
    return tb_fail(error, "range_bytes: must be a multiple of %d and fit into target %s (%" PRIu64
                          " bytes after offset_bytes)", (int)MB_LINE, target->name,
                   target->size_bytes - *offset);
}

static bool no_such_target(const struct mb_spec *spec, const char *key, const char *name,
                           struct tb_error *error)
{
    return tb_fail(error, "%s: no such target: %s (of %zu)", key, name ? name : "not a string",
                   spec->target_count);
}

bool mb_second_read(const struct mb_job *job, struct mb_second *second, struct tb_error *error)
{
    static const struct tb_param keys[] = {
        TB_NUMBER_KEY(struct mb_second, "share", share, 0, 1, 0),
        TB_OTHER_KEY("target"),
        TB_OTHER_KEY("offset_bytes"),
        TB_OTHER_KEY("range_bytes"),
        {0},
    };
    const json_t *given = json_object_get(job->given, "second");
    const char *name = json_string_value(json_object_get(given, "target"));
    *second = (struct mb_second){.target = mb_spec_target(job->spec, name)};
    if (!given || json_is_null(given))
        return true;
    if (!second->target)
        return no_such_target(job->spec, "second.target", name, error);
    second->target->mapped = true;
    return (tb_params_known(keys, NULL, given, error) &&
            tb_params_read(keys, given, second, error) &&
            read_range(given, second->target, &second->offset_bytes, &second->range_bytes,
                       error)) ||
           tb_fail_within(error, "second: ");
}

char *mb_second_part(const struct mb_thread *thread, const struct mb_second *second,
                     uint64_t *bytes)
{
    uint32_t sharers = thread->sharers, partition = thread->index / sharers;
    *bytes = mb_part_bytes(thread->job, second->range_bytes);
    return second->target->base + second->offset_bytes + partition * *bytes;
}

static bool read_pace(struct mb_job *job, struct tb_error *error)
{
    static const struct tb_param keys[] = {
        TB_INTEGER_KEY(struct mb_pace, "bytes_per_second", bytes_per_second, 1, INT64_MAX, 0),
        TB_INTEGER_KEY(struct mb_pace, "pause_ns", pause_ns, 1, INT64_MAX, 0),
        {0},
    };
    const json_t *given = json_object_get(job->given, "pace");
    if (!given || json_is_null(given))
        return true;
    if (!tb_params_known(keys, NULL, given, error) ||
        !tb_params_read(keys, given, &job->pace, error))
        return tb_fail_within(error, "pace: ");
    return !job->pace.bytes_per_second != !job->pace.pause_ns ||
           tb_fail(error, "pace: set either bytes_per_second or pause_ns");
}

/* The n-th processor that the program may use, in turn. */
static int nth_allowed(const cpu_set_t *allowed, uint32_t n)
{
    n %= (uint32_t)CPU_COUNT(allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && n-- == 0)
            return cpu;
    return 0;
}

static bool read_cpus(struct mb_job *job, struct tb_error *error)
{
    const json_t *given = json_object_get(job->given, "cpus");
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    job->cpus = tb_allocate(job->threads, sizeof *job->cpus);
    size_t count = json_array_size(given);
    if (given && !json_is_null(given) && count == 0)
        return tb_fail(error, "cpus: must be a list of processor numbers");
    for (uint32_t i = 0; i < job->threads; i++) {
        const json_t *cpu = count ? json_array_get(given, i % count) : NULL;
        job->cpus[i] = cpu ? (int)json_integer_value(cpu)
                           : nth_allowed(&allowed, job->first_thread + i);
        if (cpu && (!json_is_integer(cpu) || job->cpus[i] < 0 || job->cpus[i] >= CPU_SETSIZE ||
                    !CPU_ISSET(job->cpus[i], &allowed)))
            return tb_fail(error, "cpus: this process may not use processor %d",
                           job->cpus[i]);
    }
    return true;
}

static bool threads_fit(struct mb_job *job, struct tb_error *error)
{
    job->partitions = job->partitions ? job->partitions : job->threads;
    if (job->threads % job->partitions != 0)
        return tb_fail(error, "partitions: must divide threads evenly (%u threads, %u partitions)",
                       job->threads, job->partitions);
    return job->operations == 0 || job->operations >= job->threads ||
           tb_fail(error, "operations: must be at least one for each of %u threads", job->threads);
}

static bool read_job(struct mb_job *job, struct tb_error *error)
{
    static const struct tb_param common[] = {
        TB_INTEGER_KEY(struct mb_job, "threads", threads, 1, MOST_THREADS, 1),
        TB_INTEGER_KEY(struct mb_job, "partitions", partitions, 0, MOST_THREADS, 1),
        TB_INTEGER_KEY(struct mb_job, "operations", operations, 1, INT64_MAX, 0),
        TB_OTHER_KEY("name"),
        TB_OTHER_KEY("kind"),
        TB_OTHER_KEY("target"),
        TB_OTHER_KEY("cpus"),
        TB_OTHER_KEY("offset_bytes"),
        TB_OTHER_KEY("range_bytes"),
        TB_OTHER_KEY("pace"),
        {0},
    };
    const char *kind = json_string_value(json_object_get(job->given, "kind"));
    const char *target = json_string_value(json_object_get(job->given, "target"));
    const struct mb_kernel *kernel = job->kernel = kind ? mb_kernel_named(kind) : NULL;
    if (!kernel)
        return tb_fail(error, "kind: no such kernel: %s", kind ? kind : "not a string");
    if (!tb_params_known(common, kernel->params, job->given, error))
        return false;
    job->target = mb_spec_target(job->spec, target);
    if (!job->target)
        return no_such_target(job->spec, "target", target, error);
    job->target->by_calls = job->target->by_calls || kernel->by_calls;
    bool itself = kernel->maps_itself && job->target->kind == MB_DRAM;
    job->target->by_kernels = job->target->by_kernels || itself;
    job->target->mapped = job->target->mapped || (!kernel->by_calls && !itself);
    job->params = tb_allocate(1, kernel->params_bytes);
    return read_range(job->given, job->target, &job->offset_bytes, &job->range_bytes, error) &&
           tb_params_read(common, job->given, job, error) && threads_fit(job, error) &&
           read_cpus(job, error) && read_pace(job, error) &&
           tb_params_read(kernel->params, job->given, job->params, error) &&
           (!kernel->validate || kernel->validate(job, error));
}

static bool read_name(const json_t *given, const char **name, struct tb_error *error)
{
    *name = json_string_value(json_object_get(given, "name"));
    if (*name && **name)
        return true;
    return tb_fail(error, "name: must be a string");
}

static bool read_jobs(struct mb_spec *spec, struct mb_measurement *measurement,
                      const json_t *given, uint64_t stream, struct tb_error *error)
{
    struct tb_random seeds;
    uint32_t threads = 0;
    tb_random_seed(&seeds, spec->seed, stream);
    measurement->jobs = tb_allocate(json_array_size(given), sizeof *measurement->jobs);
    for (size_t i = 0; i < json_array_size(given); i++) {
        struct mb_job *job = &measurement->jobs[i];
        *job = (struct mb_job){.spec = spec, .given = json_array_get(given, i)};
        job->first_thread = threads;
        job->seed = tb_random_next(&seeds);
        measurement->job_count = i + 1;
        if (!read_name(job->given, &job->name, error))
            return false;
        if (!read_job(job, error))
            return tb_fail_within(error, "job %.100s: ", job->name);
        threads += job->threads;
    }
    return true;
}

static bool ends(const struct mb_measurement *measurement, struct tb_error *error)
{
    bool bounded = measurement->duration_ns > 0;
    for (size_t i = 0; i < measurement->job_count; i++)
        bounded = bounded || measurement->jobs[i].operations > 0;
    if (!bounded)
        tb_fail(error, "duration_ns: set it, or some job's operations");
    return bounded;
}

static bool read_measurement(struct mb_spec *spec, size_t index, const json_t *given,
                             struct tb_error *error)
{
    static const struct tb_param keys[] = {
        TB_INTEGER_KEY(struct mb_measurement, "repeats", repeats, 1, 100000, 1),
        TB_INTEGER_KEY(struct mb_measurement, "warm_up_ns", warm_up_ns, 0, LONGEST_NS, 0),
        TB_INTEGER_KEY(struct mb_measurement, "duration_ns", duration_ns, 0, LONGEST_NS, 0),
        TB_OTHER_KEY("name"),
        TB_OTHER_KEY("jobs"),
        {0},
    };
    struct mb_measurement *measurement = &spec->measurements[index];
    const json_t *jobs = json_object_get(given, "jobs");
    if (!read_name(given, &measurement->name, error))
        return tb_fail_within(error, "measurement: ");
    if (json_array_size(jobs) == 0)
        tb_fail(error, "jobs: must be a list of one or more");
    else if (tb_params_known(keys, NULL, given, error) &&
             tb_params_read(keys, given, measurement, error) &&
             read_jobs(spec, measurement, jobs, index, error) && ends(measurement, error))
        return true;
    return tb_fail_within(error, "measurement %.100s: ", measurement->name);
}

static bool read_targets(struct mb_spec *spec, struct tb_error *error)
{
    json_t *given = json_object_get(spec->document, "targets");
    const char *name;
    json_t *target;
    if (json_object_size(given) == 0)
        return tb_fail(error, "targets: must be an object of one or more");
    spec->targets = tb_allocate(json_object_size(given), sizeof *spec->targets);
    json_object_foreach(given, name, target) {
        if (!mb_target_read(&spec->targets[spec->target_count++], name, target, error))
            return false;
    }
    return true;
}

static bool read_measurements(struct mb_spec *spec, struct tb_error *error)
{
    const json_t *given = json_object_get(spec->document, "measurements");
    if (json_array_size(given) == 0)
        return tb_fail(error, "measurements: must be a list of one or more");
    spec->measurements = tb_allocate(json_array_size(given), sizeof *spec->measurements);
    spec->measurement_count = json_array_size(given);
    for (size_t i = 0; i < spec->measurement_count; i++)
        if (!read_measurement(spec, i, json_array_get(given, i), error))
            return false;
    return true;
}

static bool used_alike(const struct mb_spec *spec, struct tb_error *error)
{
    for (size_t i = 0; i < spec->target_count; i++)
        if (spec->targets[i].mapped && spec->targets[i].by_calls)
            return tb_fail(error, "target %s: jobs of kind file need a target of their own",
                           spec->targets[i].name);
    return true;
}

bool mb_spec_read(struct mb_spec *spec, json_t *document, struct tb_error *error)
{
    static const struct tb_param keys[] = {
        TB_INTEGER_KEY(struct mb_spec, "seed", seed, 0, INT64_MAX, TB_REQUIRED),
        TB_FLAG_KEY(struct mb_spec, "report_windows", report_windows, false),
        TB_FLAG_KEY(struct mb_spec, "await_windows", await_windows, false),
        TB_OTHER_KEY("schema"),
        TB_OTHER_KEY("targets"),
        TB_OTHER_KEY("measurements"),
        {0},
    };
    *spec = (struct mb_spec){.document = document};
    if (!tb_params_known(keys, NULL, document, error))
        return tb_fail_within(error, "the spec: ");
    if (json_integer_value(json_object_get(document, "schema")) != 2)
        return tb_fail(error, "schema: must be 2");
    return tb_params_read(keys, document, spec, error) && read_targets(spec, error) &&
           read_measurements(spec, error) && used_alike(spec, error);
}

void mb_spec_free(struct mb_spec *spec)
{
    for (size_t m = 0; m < spec->measurement_count; m++) {
        struct mb_measurement *measurement = &spec->measurements[m];
        for (size_t j = 0; j < measurement->job_count; j++) {
            struct mb_job *job = &measurement->jobs[j];
            if (job->params && job->kernel->release)
                job->kernel->release(job);
            free(job->params);
            free(job->cpus);
        }
        free(measurement->jobs);
    }
    for (size_t t = 0; t < spec->target_count; t++)
        mb_target_unmap(&spec->targets[t]);
    free(spec->measurements);
    free(spec->targets);
    json_decref(spec->document);
}

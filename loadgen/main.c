/*
 * loadgen: the native client.
 *
 *   loadgen - < spec.json > result.json 3> progress.jsonl
 *
 * Exit status: 0 complete; 1 failed, with the reason in the result and on stderr; 2 the
 * spec cannot be run as it is, nothing was started; 130 and 143 ended by a signal.
 */
#include "run.h"

#include <signal.h>

static const struct lg_workload *const workloads[] = {
    &lg_tpcc,
    &lg_ycsb,
#ifdef LOADGEN_TESTS
    &lg_ping,
#endif
};

enum { FAILED = 1, USAGE = 2 };

static int refuse(const struct tb_error *error)
{
    fprintf(stderr, "loadgen: %s\n", error->text);
    return USAGE;
}

static const struct lg_workload *find_workload(const char *name, struct tb_error *error)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i]->name, name) == 0)
            return workloads[i];
    tb_fail(error, "workload.name: no such workload: %s", name);
    return NULL;
}

/* After a load: the engine comes to rest, and reports its counters. */
static bool settle(const struct lg_job *job, json_t *result, struct tb_error *error)
{
    json_t *counters = NULL;
    if (job->backend->settle && !job->backend->settle(job->client, error))
        return false;
    if (job->backend->counters && !(counters = job->backend->counters(job->client, error)))
        return false;
    if (counters)
        lg_result_add_engine(result, NULL, counters);
    return true;
}

/* A task other than "run". */
static json_t *do_job(const struct lg_spec *spec, const struct lg_workload *workload,
                      const struct lg_backend *backend)
{
    struct tb_error error = {""};
    uint64_t begin_ns = tb_monotonic_ns();
    bool loads = spec->task == LG_LOAD, done = false;
    bool (*work)(const struct lg_job *, json_t *, struct tb_error *) =
        loads ? workload->load : workload->verify;
    json_t *result = json_pack("{s:i, s:s, s:s, s:{}}", "schema", 1, "task",
                               loads ? "load" : "verify", "version", LOADGEN_VERSION, "notes");
    if (!work) {
        tb_fail(&error, "workload %s has no task \"%s\"", workload->name,
                loads ? "load" : "verify");
    } else {
        void *client = backend->open(spec->connection, &error);
        if (client) {
            const struct lg_job job = {.spec = spec, .backend = backend, .client = client};
            done = work(&job, result, &error) && (!loads || settle(&job, result, &error));
            backend->close(client);
        }
    }
    json_object_set_new(result, "status", json_string(done ? "complete" : "failed"));
    json_object_set_new(result, "error", done ? json_null() : json_string(error.text));
    json_object_set_new(result, "client_cpu_ns", tb_integer(tb_process_cpu_ns()));
    json_object_set_new(result, "duration_ns", tb_integer(tb_monotonic_ns() - begin_ns));
    return result;
}

/* A result that cannot be written is a failure, whatever it says. */
static int print(json_t *result)
{
    bool complete = strcmp(json_string_value(json_object_get(result, "status")), "complete") == 0;
    tb_progress_close();
    if (!complete)
        fprintf(stderr, "loadgen: %s\n", json_string_value(json_object_get(result, "error")));
    return tb_print(result, "loadgen") && complete ? EXIT_SUCCESS : FAILED;
}

static int execute(const struct lg_spec *spec, struct tb_error *error)
{
    const struct lg_workload *workload = find_workload(spec->workload, error);
    if (!workload)
        return refuse(error);
    const struct lg_backend *backend = lg_module_open(spec->backend, error);
    if (!backend)
        return refuse(error);
    return print(spec->task == LG_RUN ? lg_run(spec, workload, backend)
                                      : do_job(spec, workload, backend));
}

int main(int argc, char **argv)
{
    tb_progress_open();
    signal(SIGPIPE, SIG_IGN);
    if (argc != 2 || strcmp(argv[1], "-") != 0) {
        fprintf(stderr, "usage: loadgen - < spec.json > result.json\n");
        return USAGE;
    }
    struct tb_error error = {""};
    struct lg_spec spec;
    json_t *document = tb_read_document(&error);
    if (!document)
        return refuse(&error);
    int status = lg_spec_read(&spec, document, &error) ? execute(&spec, &error) : refuse(&error);
    if (status == FAILED)
        _exit(status); /* threads of a failed run may still be there */
    lg_spec_free(&spec);
    return status;
}

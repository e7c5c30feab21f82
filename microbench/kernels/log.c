/*
 * A transaction log's writer (DaMoN'19, section 3.3 and Figure 6): entries appended one by one,
 * each durable before the next.
 *
 *   {"name": "commit", "kind": "log", "target": "t0", "threads": 1, "writer": "zero",
 *    "padded": true, "entry_bytes": 64, "flush": "clwb", "sample_every": 0}
 *
 * Writers: classic, header (libpmemlog's), dancing, zero (log_writer.h). Every thread has a log
 * of its own: an equal part of its partition. A full log starts again: it is filled with zeros, as
 * a database does beforehand. That time is no part of any figure; how much it was is among the
 * facts (`zeroing_ns`, of all threads together).
 *
 * After every repeat each log is recovered as after a restart: it must hold exactly what was
 * appended to it.
 */
#include "durable_job.h"
#include "log_writer.h"

enum { PAYLOADS = 64 };

struct logged {
    struct mb_durable durable;
    enum mb_log_kind writer;
    bool padded;
    uint64_t entry_bytes; /* of the request */
    size_t stored_bytes;  /* in whole words */
    size_t log_bytes;     /* of one thread */
    _Atomic uint64_t zeroing_ns, laps;
    uint64_t *appended; /* by thread: to the log as it is now */
};

struct writer {
    struct mb_log log;
    char *payloads; /* PAYLOADS of them, in the cache: what the transaction has just made */
    uint64_t until_sample;
};

static const char *const writers[] = {"classic", "header", "dancing", "zero", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct logged, "writer", writer, writers, 0, -1),
    TB_FLAG_KEY(struct logged, "padded", padded, true),
    TB_INTEGER_KEY(struct logged, "entry_bytes", entry_bytes, 1, MB_MIB, TB_REQUIRED),
    MB_DURABLE_KEYS(struct logged, durable, MB_MEDIUM_CLWB),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct logged *logged = job->params;
    logged->stored_bytes = (logged->entry_bytes + MB_WORD - 1) / MB_WORD * MB_WORD;
    logged->log_bytes = mb_thread_bytes(job);
    logged->appended = tb_allocate(job->threads, sizeof *logged->appended);
    size_t stride = mb_log_stride(logged->writer, logged->padded, logged->stored_bytes);
    size_t least = MB_LOG_AREA + stride;
    if (logged->log_bytes < least)
        return tb_fail(error, "range_bytes: each thread has a log of %zu bytes; one entry needs %zu",
                       logged->log_bytes, least);
    return mb_durable_fits(job, error);
}

static void release(struct mb_job *job)
{
    struct logged *logged = job->params;
    free(logged->appended);
}

static void start_log(struct mb_thread *thread)
{
    const struct logged *logged = thread->job->params;
    struct writer *writer = thread->own;
    char *base = mb_thread_base(thread->job, thread->index);
    memset(base, 0, logged->log_bytes);
    mb_log_open(&writer->log, base, logged->log_bytes, logged->writer, logged->padded);
}

static void begin(struct mb_thread *thread)
{
    struct logged *logged = thread->job->params;
    struct writer *writer = thread->own = tb_allocate(1, sizeof *writer);
    writer->payloads = mb_random_bytes(thread, PAYLOADS * logged->stored_bytes);
    writer->until_sample = (uint64_t)logged->durable.sampler.every;
    atomic_store(&logged->zeroing_ns, 0);
    atomic_store(&logged->laps, 0);
    start_log(thread);
}

static __attribute__((noinline)) void next_lap(struct mb_thread *thread)
{
    struct logged *logged = thread->job->params;
    uint64_t from = tb_monotonic_ns();
    start_log(thread);
    uint64_t taken = tb_monotonic_ns() - from;
    thread->done.excluded_ns += taken;
    if (!thread->recording)
        return;
    atomic_fetch_add(&logged->zeroing_ns, taken);
    atomic_fetch_add(&logged->laps, 1);
}

MB_ALWAYS_INLINE void append_do(struct mb_thread *thread, const struct mb_medium *medium,
                                uint64_t entries)
{
    const struct logged *logged = thread->job->params;
    struct writer *writer = thread->own;
    const size_t bytes = logged->stored_bytes;
    for (uint64_t i = 0; i < entries; i++) {
        const char *payload = writer->payloads + i % PAYLOADS * bytes;
        bool timed = mb_sample_due(&logged->durable.sampler, &writer->until_sample);
        uint64_t from = timed ? mb_clock_begin() : 0;
        while (!mb_log_append(&writer->log, medium, payload, bytes)) {
            next_lap(thread);
            from = timed ? mb_clock_begin() : 0;
        }
        if (timed)
            mb_sample_end(thread, from);
    }
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct logged *logged = thread->job->params;
    MB_WITH_MEDIUM(logged->durable.flush, append_do, thread, operations);
    thread->done.operations += operations;
    thread->done.written_bytes += operations * logged->entry_bytes;
}

static void end(struct mb_thread *thread)
{
    const struct logged *logged = thread->job->params;
    struct writer *writer = thread->own;
    logged->appended[thread->index] = writer->log.number;
    free(writer->payloads);
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    const struct logged *logged = job->params;
    for (uint32_t i = 0; i < job->threads; i++) {
        uint64_t found = mb_log_recover(mb_thread_base(job, i), logged->log_bytes, logged->writer,
                                        logged->padded, NULL, NULL);
        if (found == logged->appended[i])
            continue;
        return tb_fail(error, "the log of thread %" PRIu32 ": recovery finds %" PRIu64 " entries, %"
                              PRIu64 " were appended", i, found, logged->appended[i]);
    }
    return true;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct logged *logged = job->params;
    size_t stride = mb_log_stride(logged->writer, logged->padded, logged->stored_bytes);
    uint64_t entries = 0;
    for (uint32_t i = 0; i < job->threads; i++)
        entries += logged->appended[i];
    mb_durable_report(job, facts);
    json_object_set_new(facts, "bytes_an_entry", json_integer((json_int_t)stride));
    json_object_set_new(facts, "zeroing_ns", json_integer((json_int_t)logged->zeroing_ns));
    json_object_set_new(facts, "laps", json_integer((json_int_t)logged->laps));
    json_object_set_new(facts, "recovered_entries", json_integer((json_int_t)entries));
}

const struct mb_kernel mb_log = {
    .name = "log",
    .params = params,
    .params_bytes = sizeof(struct logged),
    .has_latency = true,
    .validate = validate,
    .release = release,
    .prepare = mb_durable_prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .check = check,
    .report = report,
    .persists = mb_durable_persists,
};

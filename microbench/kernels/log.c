/*
 * A transaction log's writer (DaMoN'19, section 3.3 and Figure 6): entries appended one by one,
 * each durable before the next.
 *
 *   {"name": "commit", "kind": "log", "target": "t0", "threads": 1, "writer": "zero",
 *    "padded": true, "entry_bytes": 64, "flush": "clwb", "sample_every": 0}
 *
 * Writers: classic, header (libpmemlog's), dancing, zero (log_writer.h). Every thread has a log
 * of its own: an equal part of its partition. With `group`, the threads of a partition share its log:
 * each waits until its entry is durable, and whoever finds the log free commits up to `group` waiting
 * entries with the same barriers. With `table_bytes` a transaction first changes a record of the
 * entry's size at random in such a table in DRAM. A full log starts again: it is filled with zeros, as
 * a database does beforehand. That time is no part of any figure; how much it was is among the
 * facts (`zeroing_ns`, of all threads together).
 *
 * After every repeat each log is recovered as after a restart: it must hold exactly what was
 * appended to it.
 */
#include "durable_job.h"
#include "log_writer.h"

enum { PAYLOADS = 64, GROUP_MOST = 64 };

/* A log that threads share. */
struct shared {
    struct mb_log log;
    atomic_flag busy;
    _Atomic uint64_t zeroing_ns; /* so far: no part of any thread's time */
    struct slot {
        _Atomic(const void *) payload; /* NULL: durable */
        char apart[2 * MB_LINE - sizeof(void *)];
    } *waiting; /* by place */
};

struct logged {
    struct mb_durable durable;
    enum mb_log_kind writer;
    bool padded;
    uint64_t entry_bytes; /* of the request */
    size_t stored_bytes;  /* in whole words */
    size_t log_bytes;     /* of one thread, or of those that share it */
    int64_t group;        /* entries that share barriers; 0: each thread has a log */
    int64_t table_bytes;  /* of a thread */
    struct shared *shared; /* by partition */
    _Atomic uint64_t zeroing_ns, laps;
    uint64_t *appended; /* by thread: to the log as it is now */
};

struct writer {
    struct mb_log log;
    char *table;    /* records in DRAM; NULL: none */
    char *payloads; /* PAYLOADS of them, in the cache: what the transaction has just made */
    uint64_t until_sample;
};

static const char *const writers[] = {"classic", "header", "dancing", "zero", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct logged, "writer", writer, writers, 0, -1),
    TB_FLAG_KEY(struct logged, "padded", padded, true),
    TB_INTEGER_KEY(struct logged, "entry_bytes", entry_bytes, 1, MB_MIB, TB_REQUIRED),
    TB_INTEGER_KEY(struct logged, "group", group, 0, GROUP_MOST, 0),
    TB_INTEGER_KEY(struct logged, "table_bytes", table_bytes, 0, INT64_MAX, 0),
    MB_DURABLE_KEYS(struct logged, durable, MB_MEDIUM_CLWB),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct logged *logged = job->params;
    logged->stored_bytes = (logged->entry_bytes + MB_WORD - 1) / MB_WORD * MB_WORD;
    uint32_t sharers = job->threads / job->partitions;
    logged->log_bytes = logged->group ? mb_part_bytes(job, job->range_bytes) : mb_thread_bytes(job);
    logged->shared = tb_allocate(job->partitions, sizeof *logged->shared);
    for (uint32_t i = 0; i < job->partitions; i++)
        logged->shared[i].waiting = tb_allocate(sharers, sizeof *logged->shared[i].waiting);
    logged->appended = tb_allocate(job->threads, sizeof *logged->appended);
    size_t stride = mb_log_stride(logged->writer, logged->padded, logged->stored_bytes);
    size_t least = MB_LOG_AREA + stride;
    if (logged->log_bytes < least)
        return tb_fail(error, "range_bytes: each thread has a log of %zu bytes; one entry needs %zu",
                       logged->log_bytes, least);
    if (logged->log_bytes < MB_LOG_AREA + (size_t)logged->group * stride)
        return tb_fail(error, "group: %" PRId64 " entries need more than the log's %zu bytes",
                       logged->group, logged->log_bytes);
    if (logged->table_bytes > 0 && (size_t)logged->table_bytes < logged->stored_bytes)
        return tb_fail(error, "table_bytes: less than a record of %zu bytes", logged->stored_bytes);
    return mb_durable_fits(job, error);
}

static void release(struct mb_job *job)
{
    struct logged *logged = job->params;
    free(logged->appended);
    for (uint32_t i = 0; logged->shared && i < job->partitions; i++)
        free(logged->shared[i].waiting);
    free(logged->shared);
}

static struct shared *shared_of(const struct mb_thread *thread)
{
    const struct logged *logged = thread->job->params;
    return &logged->shared[thread->index / thread->sharers];
}

/* The thread's, or that of the first of its sharers. */
static char *log_base(const struct mb_job *job, uint32_t index)
{
    const struct logged *logged = job->params;
    uint32_t sharers = job->threads / job->partitions;
    return mb_thread_base(job, logged->group ? index / sharers * sharers : index);
}

static void start_log(struct mb_thread *thread)
{
    const struct logged *logged = thread->job->params;
    struct writer *writer = thread->own;
    char *base = log_base(thread->job, thread->index);
    memset(base, 0, logged->log_bytes);
    mb_log_open(logged->group ? &shared_of(thread)->log : &writer->log, base, logged->log_bytes,
                logged->writer, logged->padded);
}

static void begin(struct mb_thread *thread)
{
    struct logged *logged = thread->job->params;
    struct writer *writer = thread->own = tb_allocate(1, sizeof *writer);
    writer->payloads = mb_random_bytes(thread, PAYLOADS * logged->stored_bytes);
    writer->until_sample = (uint64_t)logged->durable.sampler.every;
    atomic_store(&logged->zeroing_ns, 0);
    atomic_store(&logged->laps, 0);
    if (logged->table_bytes)
        writer->table = mb_random_bytes(thread, (size_t)logged->table_bytes / MB_WORD * MB_WORD);
    if (logged->group && thread->place > 0)
        return; /* the first of them */
    atomic_store(&shared_of(thread)->zeroing_ns, 0);
    atomic_flag_clear(&shared_of(thread)->busy);
    start_log(thread);
}

static __attribute__((noinline)) void next_lap(struct mb_thread *thread)
{
    struct logged *logged = thread->job->params;
    uint64_t from = tb_monotonic_ns();
    start_log(thread);
    uint64_t taken = tb_monotonic_ns() - from;
    if (logged->group)
        atomic_fetch_add(&shared_of(thread)->zeroing_ns, taken); /* excluded from all: commit */
    else
        thread->done.excluded_ns += taken;
    if (!thread->recording)
        return;
    atomic_fetch_add(&logged->zeroing_ns, taken);
    atomic_fetch_add(&logged->laps, 1);
}

/* Commits entries that wait, its own among them; the log is this thread's for now. */
MB_ALWAYS_INLINE void lead(struct mb_thread *thread, const struct mb_medium *medium)
{
    const struct logged *logged = thread->job->params;
    struct shared *shared = shared_of(thread);
    const void *payloads[GROUP_MOST];
    struct slot *slots[GROUP_MOST];
    size_t count = 0;
    for (uint32_t i = 0; i < thread->sharers && count < (size_t)logged->group; i++) {
        struct slot *slot = &shared->waiting[(thread->place + i) % thread->sharers];
        payloads[count] = atomic_load_explicit(&slot->payload, memory_order_acquire);
        if (payloads[count])
            slots[count++] = slot;
    }
    if (count == 0)
        return; /* another one has committed it */
    while (!mb_log_append_group(&shared->log, medium, payloads, count, logged->stored_bytes))
        next_lap(thread);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&slots[i]->payload, NULL, memory_order_release);
}

MB_ALWAYS_INLINE void commit(struct mb_thread *thread, const struct mb_medium *medium,
                             const char *payload)
{
    struct shared *shared = shared_of(thread);
    _Atomic(const void *) *waiting = &shared->waiting[thread->place].payload;
    uint64_t zeroing_ns = atomic_load(&shared->zeroing_ns);
    atomic_store_explicit(waiting, payload, memory_order_release);
    while (atomic_load_explicit(waiting, memory_order_acquire)) {
        if (atomic_flag_test_and_set_explicit(&shared->busy, memory_order_acquire))
            continue;
        lead(thread, medium);
        atomic_flag_clear_explicit(&shared->busy, memory_order_release);
    }
    thread->done.excluded_ns += atomic_load(&shared->zeroing_ns) - zeroing_ns;
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
        if (writer->table) {
            uint64_t records = (uint64_t)logged->table_bytes / bytes;
            uint64_t drawn = tb_random_next(&thread->random) >> 32;
            memcpy(writer->table + (drawn * records >> 32) * bytes, payload, bytes);
        }
        if (logged->group) {
            commit(thread, medium, payload);
            if (timed)
                mb_sample_end(thread, from);
            continue;
        }
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
    if (!logged->group)
        logged->appended[thread->index] = writer->log.number;
    free(writer->table);
    free(writer->payloads);
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    const struct logged *logged = job->params;
    uint32_t sharers = job->threads / job->partitions;
    for (uint32_t i = 0; i < job->threads; i += logged->group ? sharers : 1) {
        if (logged->group)
            logged->appended[i] = logged->shared[i / sharers].log.number;
        uint64_t found = mb_log_recover(log_base(job, i), logged->log_bytes, logged->writer,
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

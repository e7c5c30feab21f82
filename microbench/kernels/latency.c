/*
 * How long one operation takes: each between two stamps, by itself.
 *
 *   {"name": "persist a line", "kind": "latency", "target": "t0", "threads": 1,
 *    "operation": "store", "flush": "clwb", "fence": "sfence", "access_bytes": 64,
 *    "pattern": "random", "isa": "auto", "lane": "vector", "before": "loaded"}
 *
 * operation × flush × {64, 128, 256 B} × {sequential, random} × lane are LATTester's basic
 * kernels (FAST'20, Figures 2 and 12); lane "words" moves 8 bytes at a time. Its stamps wait
 * for the operation, so a fence of the operation's own costs what it costs on top.
 * "before": the state of the lines: "flushed" for what goes past or misses the cache (default
 * of loads and of ntstore), "loaded" (default of stores), "none", and "written": read after write.
 * There each operation first writes its lines ("written_by") and then times those that were
 * written "distance" operations earlier, 0: these very lines.
 * Overwriting a hot spot (Figure 3): "none", "sequential", over a small range_bytes.
 * Which writes the device combines (Figure 9's XPBuffer): "strided", stride_bytes 256, 128 B:
 * first halves of N blocks, then their second halves.
 */
#include "loops/timed.h"
#include "timer_overhead.h"

/* AS_USUAL: the state of the lines depends on the operation. */
enum { SAMPLES = 1024, DISTANCE_MOST = 1 << 20, AS_USUAL = MB_WRITTEN + 1 };

struct latency {
    struct mb_operation operation;
    struct mb_pattern pattern;
    bool words;
    enum mb_before before;
    enum writer { BY_NTSTORE, BY_CLWB, BY_CLFLUSHOPT, BY_CLFLUSH, BY_STORE } written_by;
    int64_t distance;
    mb_timed_loop *loop;
    struct mb_timer_overhead overhead;
};

struct samples {
    struct mb_cursor cursor;
    struct mb_timed timed;
    uint64_t cycles[SAMPLES];
};

static const char *const lanes[] = {"vector", "words", NULL};
static const char *const befores[] = {"none", "loaded", "flushed", "written", NULL};
static const char *const writers[] = {"ntstore", "clwb", "clflushopt", "clflush", "store", NULL};
static const enum mb_flush written_flush[] = {[BY_CLWB] = MB_CLWB, [BY_CLFLUSHOPT] = MB_CLFLUSHOPT,
                                              [BY_CLFLUSH] = MB_CLFLUSH, [BY_STORE] = MB_NO_FLUSH};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct latency, "operation", operation.access, mb_access_names, 0, -1),
    MB_OPERATION_KEYS(struct latency, operation),
    MB_PATTERN_KEYS(struct latency, pattern, -1),
    TB_WORD_KEY(struct latency, "lane", words, lanes, 0, 0),
    TB_WORD_KEY(struct latency, "before", before, befores, 0, AS_USUAL),
    TB_WORD_KEY(struct latency, "written_by", written_by, writers, 0, BY_NTSTORE),
    TB_INTEGER_KEY(struct latency, "distance", distance, 0, DISTANCE_MOST, 0),
    {0},
};

mb_timed_loop *mb_timed_loop_of(const struct mb_operation *operation, bool words)
{
    return MB_BY_ISA(operation->isa, mb_timed)(operation, words);
}

static bool settle_before(struct latency *latency, struct tb_error *error)
{
    enum mb_access access = latency->operation.access;
    if (latency->before == (enum mb_before)AS_USUAL)
        latency->before = access == MB_EMPTY   ? MB_AS_IS
                          : access == MB_STORE ? MB_LOADED
                                               : MB_FLUSHED;
    bool written = latency->before == MB_WRITTEN;
    if (!mb_flush_there("written_by", written_flush[latency->written_by], error))
        return false;
    if (written && access != MB_LOAD && access != MB_NTLOAD)
        return tb_fail(error, "before: \"written\" is only for load and ntload");
    return written || (latency->distance == 0 && latency->written_by == BY_NTSTORE) ||
           tb_fail(error, "distance, written_by: only with \"before\": \"written\"");
}

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct latency *latency = job->params;
    if (!mb_operation_settle(job, &latency->operation, error) ||
        !mb_pattern_settle(job, latency->operation.bytes, &latency->pattern, error) ||
        !settle_before(latency, error))
        return false;
    if (latency->operation.fence_every_bytes != latency->operation.bytes)
        return tb_fail(error, "fence_every_bytes: must be access_bytes: an operation timed alone "
                              "has one fence");
    latency->loop = mb_timed_loop_of(&latency->operation, latency->words);
    return latency->loop || tb_fail(error, "lane: \"words\" is only for load and store (got %s)",
                                    mb_access_names[latency->operation.access]);
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct latency *latency = job->params;
    mb_timer_overhead_measure(&latency->overhead, latency->operation.isa, job->base);
    return true;
}

static void begin(struct mb_thread *thread)
{
    const struct latency *latency = thread->job->params;
    struct samples *samples = tb_allocate(1, sizeof *samples);
    thread->own = samples;
    mb_cursor_init(&samples->cursor, thread, &latency->pattern, latency->operation.bytes,
                   thread->base, thread->range_bytes, 0);
    samples->timed = (struct mb_timed){
        .bytes = latency->operation.bytes,
        .before = latency->before,
        .written_by = latency->written_by == BY_NTSTORE ? MB_NTSTORE : MB_STORE,
        .written_flush = written_flush[latency->written_by],
        .distance = (uint64_t)latency->distance,
    };
    if (latency->distance > 0) { /* until they are written: where the thread begins */
        samples->timed.written = tb_allocate((size_t)latency->distance, sizeof(char *));
        for (int64_t i = 0; i < latency->distance; i++)
            samples->timed.written[i] = samples->cursor.base;
    }
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct latency *latency = thread->job->params;
    struct samples *samples = thread->own;
    enum mb_access access = latency->operation.access;
    for (uint64_t left = operations; left > 0; left -= samples->timed.span.count) {
        samples->timed.span = mb_cursor_next(&samples->cursor, left < SAMPLES ? left : SAMPLES);
        latency->loop(&samples->timed, samples->cycles);
        for (uint64_t i = 0; thread->recording && i < samples->timed.span.count; i++)
            tb_hdr_record(&thread->latency, mb_ns(samples->cycles[i]), 1);
    }
    thread->done.operations += operations;
    if (access == MB_LOAD || access == MB_NTLOAD)
        thread->done.read_bytes += operations * latency->operation.bytes;
    else if (access != MB_EMPTY)
        thread->done.written_bytes += operations * latency->operation.bytes;
}

static void end(struct mb_thread *thread)
{
    struct samples *samples = thread->own;
    mb_cursor_free(&samples->cursor);
    free(samples->timed.written);
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct latency *latency = job->params;
    const char *isa = latency->words ? "words" : mb_isa_names[latency->operation.isa];
    json_object_set_new(facts, "isa", json_string(isa));
    json_object_set_new(facts, "before", json_string(befores[latency->before]));
    mb_timer_overhead_report(&latency->overhead, facts);
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct mb_operation *operation = &((const struct latency *)job->params)->operation;
    *persist = (struct mb_persist){
        .non_temporal = operation->access == MB_NTSTORE,
        .flush = operation->flush,
        /* The second stamp's mfence waits in any case, but it is not the program's. */
        .fence = operation->fence,
    };
    return operation->access == MB_STORE || operation->access == MB_NTSTORE;
}

const struct mb_kernel mb_latency = {
    .name = "latency",
    .params = params,
    .params_bytes = sizeof(struct latency),
    .has_latency = true,
    .validate = validate,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .report = report,
    .persists = persists,
};

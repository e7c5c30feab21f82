/*
 * Atomic operations on words of the target.
 *
 *   {"name": "counter", "kind": "atomic", "target": "t0", "threads": 2,
 *    "operation": "fetch_and_add", "pattern": "hotspot", "hotspot_bytes": 64, "sample_every": 16}
 *
 * Each operation is one instruction on the first word of a line. Contended: several threads with a
 * hotspot of few lines. Not contended: "partitions": 0, or one thread. A compare-and-swap expects
 * what this thread saw last and writes one more, as a loop that tries again does;
 * `success_share` says how many of the attempts succeeded. On random lines about half fail, which
 * costs the same.
 *
 * After each repeat the words must have grown by as much as succeeded: no update was lost. No other
 * job may write to the range.
 */
#include "loops/atomic.h"
#include "timer_overhead.h"

#if defined(__x86_64__)
#define PLAIN MB_SSE2
#else
#define PLAIN MB_NEON
#endif

struct atomic {
    enum mb_atomic operation;
    struct mb_pattern pattern;
    struct mb_sampler sampler;
    uint64_t before;                    /* sum of the words, without what was added to them */
    _Atomic uint64_t added;             /* in all repeats */
    _Atomic uint64_t tried, succeeded;  /* while it was recorded */
};

struct adder {
    struct mb_cursor cursor;
    mb_atomic_loop *loop;
    uint64_t seen, until_sample, added, tried, succeeded;
};

static const char *const operations[] = {"fetch_and_add", "compare_and_swap", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct atomic, "operation", operation, operations, 0, -1),
    MB_PATTERN_KEYS(struct atomic, pattern, -1),
    MB_SAMPLER_KEY(struct atomic, sampler),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct atomic *atomic = job->params;
    return mb_pattern_settle(job, MB_LINE, &atomic->pattern, error);
}

static uint64_t sum_of(const struct mb_job *job)
{
    uint64_t sum = 0;
    for (uint64_t at = 0; at < job->range_bytes; at += MB_LINE)
        sum += *(const uint64_t *)(const void *)(job->base + at);
    return sum;
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct atomic *atomic = job->params;
    (void)error;
    mb_sampler_prepare(&atomic->sampler, PLAIN, job->base);
    atomic->before = sum_of(job);
    atomic_store(&atomic->added, 0);
    return true;
}

static void begin(struct mb_thread *thread)
{
    struct atomic *atomic = thread->job->params;
    struct adder *adder = thread->own = tb_allocate(1, sizeof *adder);
    adder->loop = MB_BY_ISA(PLAIN, mb_atomic)(atomic->operation);
    adder->until_sample = (uint64_t)atomic->sampler.every;
    mb_cursor_init(&adder->cursor, thread, &atomic->pattern, MB_LINE, thread->base,
                   thread->range_bytes, 0);
    atomic_store(&atomic->tried, 0);
    atomic_store(&atomic->succeeded, 0);
}

/* The next operations, at most `wanted`; returns how many. */
static uint64_t some(struct mb_thread *thread, uint64_t wanted, bool timed)
{
    struct adder *adder = thread->own;
    struct mb_span span = mb_cursor_next(&adder->cursor, wanted);
    uint64_t from = timed ? mb_clock_begin() : 0;
    uint64_t succeeded = adder->loop(&span, &adder->seen);
    if (timed)
        mb_sample_end(thread, from);
    adder->added += succeeded;
    if (thread->recording) {
        adder->tried += span.count;
        adder->succeeded += succeeded;
    }
    return span.count;
}

static void work(struct mb_thread *thread, uint64_t operations_left)
{
    const struct atomic *atomic = thread->job->params;
    struct adder *adder = thread->own;
    uint64_t every = (uint64_t)atomic->sampler.every;
    for (uint64_t left = operations_left; left > 0;) {
        bool timed = adder->until_sample == 1;
        uint64_t alone = every && !timed ? adder->until_sample - 1 : left;
        uint64_t done = some(thread, timed ? 1 : alone < left ? alone : left, timed);
        if (every)
            adder->until_sample = timed ? every : adder->until_sample - done;
        left -= done;
    }
    thread->done.operations += operations_left;
    thread->done.read_bytes += operations_left * sizeof(uint64_t);
    thread->done.written_bytes += operations_left * sizeof(uint64_t);
}

static void end(struct mb_thread *thread)
{
    struct atomic *atomic = thread->job->params;
    struct adder *adder = thread->own;
    atomic_fetch_add(&atomic->added, adder->added);
    atomic_fetch_add(&atomic->tried, adder->tried);
    atomic_fetch_add(&atomic->succeeded, adder->succeeded);
    mb_cursor_free(&adder->cursor);
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    struct atomic *atomic = job->params;
    uint64_t grown = sum_of(job) - atomic->before, added = atomic_load(&atomic->added);
    return grown == added || tb_fail(error, "the words grew by %" PRIu64 ", and %" PRIu64
                                            " operations succeeded", grown, added);
}

static void report(const struct mb_job *job, json_t *facts)
{
    struct atomic *atomic = job->params;
    uint64_t tried = atomic_load(&atomic->tried);
    mb_sampler_report(&atomic->sampler, facts);
    if (tried && atomic->operation == MB_COMPARE_AND_SWAP)
        json_object_set_new(facts, "success_share",
                            json_real((double)atomic_load(&atomic->succeeded) / (double)tried));
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    (void)job;
    *persist = (struct mb_persist){.flush = MB_NO_FLUSH, .fence = MB_MFENCE};
    return true;
}

const struct mb_kernel mb_atomic = {
    .name = "atomic",
    .params = params,
    .params_bytes = sizeof(struct atomic),
    .has_latency = true,
    .validate = validate,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .check = check,
    .report = report,
    .persists = persists,
};

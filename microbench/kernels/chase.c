/*
 * Dependent loads: each one's address is what the load before it brought.
 *
 *   {"name": "chase", "kind": "chase", "target": "t0", "threads": 1}
 *
 * The latency of a load without any overlap, stamp or fence: duration / operations. The walk
 * goes through every line of the range before it comes back to one, so that a range much
 * larger than the caches misses them always. Together with throughput jobs in
 * the same measurement: loaded latency (FAST'20, Figure 6).
 *
 * The histogram is of means over `hops_a_sample` loads, not of single loads.
 *
 * Threads that share a partition walk the same cycle from different places.
 */
#include "kernel.h"
#include "support.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- one cycle through all lines of a range ---- */

/*
 * The order is drawn as a shuffle of the lines' numbers, uniform over all orders; walking it
 * around is one cycle by construction (what Sattolo's algorithm draws directly). Each line's first
 * word holds the address of the next one. It takes 4 bytes a line next to the range.
 *
 * Order and range are too big for the caches. The shuffle's swaps are random accesses, but
 * their places are known ahead and are fetched ahead; the pointers are then written in the
 * order of the walk, each to a place known ahead too.
 */
enum { AHEAD = 32 };

/* Fisher and Yates, with the draws AHEAD of the swaps. */
static void shuffle(uint32_t *numbers, uint64_t count, struct tb_random *random)
{
    uint32_t drawn[AHEAD];
    for (uint64_t i = 0; i < count + AHEAD; i++) {
        if (i >= AHEAD) {
            uint64_t last = count - 1 - (i - AHEAD), other = drawn[i % AHEAD];
            uint32_t number = numbers[last];
            numbers[last] = numbers[other];
            numbers[other] = number;
        }
        if (i < count) {
            uint64_t bound = count - i;
            drawn[i % AHEAD] = (uint32_t)(((__uint128_t)tb_random_next(random) * bound) >> 64);
            __builtin_prefetch(&numbers[drawn[i % AHEAD]], 1);
        }
    }
}

static void write_cycle(char *base, uint64_t lines, struct tb_random *random)
{
    uint32_t *order = tb_allocate(lines, sizeof *order);
    for (uint64_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    shuffle(order, lines, random);
    for (uint64_t i = 0; i < lines; i++) {
        if (i + AHEAD < lines)
            __builtin_prefetch(base + order[i + AHEAD] * MB_LINE, 1);
        char *next = base + order[i + 1 < lines ? i + 1 : 0] * MB_LINE;
        *(char **)(void *)(base + order[i] * MB_LINE) = next;
    }
    free(order);
}

/* ---- the job ---- */

enum { HOPS = 256 };

struct chase {
    uint64_t lines; /* of each partition */
};

struct walk {
    char *at;
};

static bool read(struct mb_job *job, struct tb_error *error)
{
    struct chase *chase = job->params = tb_allocate(1, sizeof *chase);
    uint64_t walks = job->threads / job->partitions;
    chase->lines = mb_part_bytes(job, job->range_bytes) / MB_LINE;
    if (chase->lines < 2 || chase->lines < walks)
        return tb_fail(error, "range_bytes: a partition has %" PRIu64 " lines; one for each thread is "
                              "required, at least two", chase->lines);
    if (chase->lines > UINT32_MAX)
        return tb_fail(error, "range_bytes: a partition has %" PRIu64 " lines, more than the %"
                              PRIu32 " of a cycle; use more partitions", chase->lines, UINT32_MAX);
    return true;
}

static bool overlap(const struct mb_job *job, const struct mb_target *target, uint64_t offset,
                    uint64_t range)
{
    return target == job->target && offset < job->offset_bytes + job->range_bytes &&
           job->offset_bytes < offset + range;
}

/* An overwritten pointer leads anywhere: no other job may write where a chase walks. */
static bool undisturbed(const struct mb_job *job, const struct mb_job *other,
                        struct tb_error *error)
{
    struct mb_second second;
    struct mb_persist persist;
    if (other == job || !other->kernel->persists || !other->kernel->persists(other, &persist))
        return true;
    if (!mb_second_read(other, &second, error))
        return false;
    if (!overlap(job, other->target, other->offset_bytes, other->range_bytes) &&
        !overlap(job, second.target, second.offset_bytes, second.range_bytes))
        return true;
    return tb_fail(error, "range_bytes: job %.100s writes where this one has its pointers; set "
                          "another offset_bytes", other->name);
}

static bool all_undisturbed(const struct mb_job *job, struct tb_error *error)
{
    const struct mb_spec *spec = job->spec;
    for (size_t i = 0; i < spec->measurement_count; i++) {
        const struct mb_measurement *one = &spec->measurements[i];
        if (job < one->jobs || job >= one->jobs + one->job_count)
            continue;
        for (size_t j = 0; j < one->job_count; j++)
            if (!undisturbed(job, &one->jobs[j], error))
                return false;
    }
    return true;
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    const struct chase *chase = job->params;
    if (!all_undisturbed(job, error))
        return false;
    for (uint32_t i = 0; i < job->partitions; i++) {
        struct tb_random random;
        tb_random_seed(&random, job->seed, i);
        write_cycle(job->base + i * mb_part_bytes(job, job->range_bytes), chase->lines, &random);
    }
    return true;
}

/* Walks begin anywhere: far from each other along the cycle, as a rule. */
static void begin(struct mb_thread *thread)
{
    const struct chase *chase = thread->job->params;
    struct walk *walk = thread->own = tb_allocate(1, sizeof *walk);
    int64_t line = tb_random_between(&thread->random, 0, (int64_t)chase->lines - 1);
    walk->at = thread->base + (uint64_t)line * MB_LINE;
}

#define HOP(at) __asm__ volatile("movq (%0), %0" : "+r"(at)::"memory");
#define HOP8(at) HOP(at) HOP(at) HOP(at) HOP(at) HOP(at) HOP(at) HOP(at) HOP(at)

static char *chase_one(char *at, uint64_t hops)
{
    uint64_t hop = 0;
    for (; hop + 32 <= hops; hop += 32) {
        HOP8(at) HOP8(at) HOP8(at) HOP8(at)
    }
    for (; hop < hops; hop++)
        HOP(at)
    return at;
}

/* An operation is one load. */
static void work(struct mb_thread *thread, uint64_t operations)
{
    struct walk *walk = thread->own;
    uint64_t hops;
    for (uint64_t left = operations; left > 0; left -= hops) {
        hops = left < HOPS ? left : HOPS;
        uint64_t from = mb_clock_read();
        walk->at = chase_one(walk->at, hops);
        uint64_t taken = mb_clock_read() - from;
        if (thread->recording)
            tb_hdr_record(&thread->latency, (mb_ns(taken) + hops / 2) / hops, hops);
    }
    thread->done.operations += operations;
    thread->done.read_bytes += operations * MB_LINE;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct chase *chase = job->params;
    json_object_set_new(facts, "nodes", json_integer((json_int_t)chase->lines));
    json_object_set_new(facts, "hops_a_sample", json_integer(HOPS));
}

static const char *const keys[] = {NULL};

const struct mb_kernel mb_chase = {
    .name = "chase",
    .keys = keys,
    .has_latency = true,
    .read = read,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .report = report,
};

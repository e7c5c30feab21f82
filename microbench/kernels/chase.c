/*
 * Dependent loads: each one's address is what the load before it brought.
 *
 *   {"name": "chase", "kind": "chase", "target": "t0", "threads": 1,
 *    "order": "random", "node_bytes": 64, "chains": 1}
 *
 * The latency of a load without any overlap, stamp or fence: duration / operations. The walk
 * goes through every node of the range before it comes back to one, so that a range much
 * larger than the caches misses them always. `node_bytes`: distance of two nodes (multichase's
 * -s); `locality_bytes`: size of the blocks that are walked one after the other (its -T; by
 * default the whole range). `chains`: concurrent walks of one thread, each from
 * another place: how many misses the core bears at a time. Together with throughput jobs in
 * the same measurement: loaded latency (FAST'20, Figure 6).
 *
 * The histogram is of means over `hops_a_sample` loads, not of single loads.
 *
 * Threads that share a partition walk the same cycle from different places.
 */
#include "chase_cycle.h"
#include "kernel.h"

enum { HOPS = 256, MOST_CHAINS = 8 };

struct chase {
    struct mb_cycle cycle; /* of each partition */
    int64_t chains;
};

struct walk {
    char *at[MOST_CHAINS];
};

static const char *const orders[] = {"random", "sequential", "strided", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct chase, "order", cycle.order, orders, 0, MB_CHASE_RANDOM),
    MB_BYTES_KEY(struct chase, "node_bytes", cycle.node_bytes, MB_LINE),
    MB_BYTES_KEY(struct chase, "stride_bytes", cycle.stride_bytes, 0),
    MB_BYTES_KEY(struct chase, "locality_bytes", cycle.locality_bytes, 0),
    TB_INTEGER_KEY(struct chase, "chains", chains, 1, MOST_CHAINS, 1),
    {0},
};

static bool settle_cycle(struct mb_cycle *cycle, uint64_t range, struct tb_error *error)
{
    if (cycle->stride_bytes % cycle->node_bytes != 0)
        return tb_fail(error, "stride_bytes: must be a multiple of node_bytes (%" PRIu64 ")",
                       cycle->node_bytes);
    if (cycle->order != MB_CHASE_STRIDED && cycle->stride_bytes)
        return tb_fail(error, "stride_bytes: only with \"order\": \"strided\"");
    if (cycle->order != MB_CHASE_RANDOM && cycle->locality_bytes)
        return tb_fail(error, "locality_bytes: only with \"order\": \"random\"");
    cycle->nodes = range / cycle->node_bytes;
    cycle->stride_bytes = cycle->stride_bytes ? cycle->stride_bytes : cycle->node_bytes;
    cycle->locality_bytes = cycle->locality_bytes ? cycle->locality_bytes : range;
    return cycle->locality_bytes >= cycle->node_bytes ||
           tb_fail(error, "locality_bytes: must be at least a node of %" PRIu64 " bytes",
                   cycle->node_bytes);
}

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct chase *chase = job->params;
    if (!settle_cycle(&chase->cycle, mb_part_bytes(job, job->range_bytes), error))
        return false;
    uint64_t walks = job->threads / job->partitions * (uint64_t)chase->chains;
    if (chase->cycle.nodes < 2 || chase->cycle.nodes < walks)
        return tb_fail(error, "range_bytes: a partition has %" PRIu64 " nodes of %" PRIu64 " "
                              "bytes; one for each walk is required, at least two",
                       chase->cycle.nodes, chase->cycle.node_bytes);
    if (chase->cycle.nodes > UINT32_MAX)
        return tb_fail(error, "node_bytes: a partition has %" PRIu64 " nodes, more than the %"
                              PRIu32 " of a cycle; use larger nodes or more partitions",
                       chase->cycle.nodes, UINT32_MAX);
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
        mb_cycle_write(job->base + i * mb_part_bytes(job, job->range_bytes), &chase->cycle, &random);
    }
    return true;
}

/* Walks begin anywhere: far from each other along the cycle, as a rule. */
static void begin(struct mb_thread *thread)
{
    const struct chase *chase = thread->job->params;
    struct walk *walk = thread->own = tb_allocate(1, sizeof *walk);
    for (int64_t i = 0; i < chase->chains; i++) {
        int64_t node = tb_random_between(&thread->random, 0, (int64_t)chase->cycle.nodes - 1);
        walk->at[i] = thread->base + (uint64_t)node * chase->cycle.node_bytes;
    }
}

#if defined(__x86_64__)
#define HOP(at) __asm__ volatile("movq (%0), %0" : "+r"(at)::"memory");
#else
#define HOP(at) __asm__ volatile("ldr %0, [%0]" : "+r"(at)::"memory");
#endif
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

/* In registers: a place that went through memory would make each hop longer. */
#define CHASE_MANY(chains, hop_all)                                \
    static void chase_##chains(struct walk *walk, uint64_t hops)   \
    {                                                              \
        char *a = walk->at[0], *b = walk->at[1], *c = walk->at[2], \
             *d = walk->at[3], *e = walk->at[4], *f = walk->at[5], \
             *g = walk->at[6], *h = walk->at[7];                   \
        for (uint64_t hop = 0; hop < hops; hop++) {                \
            hop_all                                                \
        }                                                          \
        *walk = (struct walk){{a, b, c, d, e, f, g, h}};           \
    }
CHASE_MANY(2, HOP(a) HOP(b))
CHASE_MANY(3, HOP(a) HOP(b) HOP(c))
CHASE_MANY(4, HOP(a) HOP(b) HOP(c) HOP(d))
CHASE_MANY(5, HOP(a) HOP(b) HOP(c) HOP(d) HOP(e))
CHASE_MANY(6, HOP(a) HOP(b) HOP(c) HOP(d) HOP(e) HOP(f))
CHASE_MANY(7, HOP(a) HOP(b) HOP(c) HOP(d) HOP(e) HOP(f) HOP(g))
CHASE_MANY(8, HOP(a) HOP(b) HOP(c) HOP(d) HOP(e) HOP(f) HOP(g) HOP(h))

static void (*const many[MOST_CHAINS + 1])(struct walk *, uint64_t) = {
    [2] = chase_2, [3] = chase_3, [4] = chase_4, [5] = chase_5,
    [6] = chase_6, [7] = chase_7, [8] = chase_8,
};

/* An operation is one load; with several chains each of them counts. */
static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct chase *chase = thread->job->params;
    struct walk *walk = thread->own;
    uint64_t chains = (uint64_t)chase->chains, hops;
    for (uint64_t left = operations; left > 0; left -= hops * chains) {
        hops = left / chains < HOPS ? left / chains : HOPS;
        if (hops == 0) { /* fewer than one for each chain: by the first alone */
            walk->at[0] = chase_one(walk->at[0], left);
            break;
        }
        uint64_t from = mb_clock_read();
        if (chains == 1)
            walk->at[0] = chase_one(walk->at[0], hops);
        else
            many[chains](walk, hops);
        uint64_t taken = mb_clock_read() - from;
        if (thread->recording)
            tb_hdr_record(&thread->latency, (mb_ns(taken) + hops / 2) / hops, hops * chains);
    }
    thread->done.operations += operations;
    thread->done.read_bytes += operations * MB_LINE;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct chase *chase = job->params;
    json_object_set_new(facts, "nodes", json_integer((json_int_t)chase->cycle.nodes));
    json_object_set_new(facts, "hops_a_sample", json_integer(HOPS));
}

const struct mb_kernel mb_chase = {
    .name = "chase",
    .params = params,
    .params_bytes = sizeof(struct chase),
    .has_latency = true,
    .validate = validate,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .report = report,
};

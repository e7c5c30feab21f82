/*
 * The loops of PerMA-Bench, of a bare loop, and multichase's order, as kinds of job.
 *
 *   {"kind": "perma", "operation": "read|none|cache|cacheinv|nocache", "access_bytes": …,
 *    "pattern": "sequential|random"}
 *   {"kind": "refbench", …the same…}
 *   {"kind": "multichase"}
 *
 * So they run on the same memory as our kernels, a few milliseconds behind them, and under the
 * same clock: what differs is the loop. Programs beside one another get other pages of the
 * host's each, and the machine's other guests change its bandwidth within seconds; either
 * may make 30 % of a figure.
 */
#include "../../microbench/kernel.h"
#include "peer.h"
#include "permutation.h"

enum { MOST_THREADS = 8, CHUNK = 1 << 20, ADDRESSES = 16 << 20 };

struct params {
    int access, order;
    uint64_t bytes;
};

static const char *const accesses[] = {"read", "none", "cache", "cacheinv", "nocache", NULL};
static const char *const orders[] = {"sequential", "random", NULL};
static const struct tb_param keys[] = {
    TB_WORD_KEY(struct params, "operation", access, accesses, 0, -1),
    TB_WORD_KEY(struct params, "pattern", order, orders, 0, -1),
    MB_BYTES_KEY(struct params, "access_bytes", bytes, TB_REQUIRED),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    const struct params *params = job->params;
    if (params->bytes > CHUNK || job->range_bytes / job->partitions < CHUNK)
        return tb_fail(error, "access_bytes: at most %d, and a partition has at least that", CHUNK);
    return job->threads <= MOST_THREADS || tb_fail(error, "threads: at most %d", MOST_THREADS);
}

static void count(struct mb_thread *thread, uint64_t operations)
{
    const struct params *params = thread->job->params;
    uint64_t bytes = operations * params->bytes;
    struct mb_counts *done = &thread->done;
    *(params->access == PEER_READ ? &done->read_bytes : &done->written_bytes) += bytes;
    done->operations += operations;
}

/* ---- PerMA-Bench: all addresses are there before; they stay for the next repeat ---- */

/*
 * Its program refuses a size that is no power of two, and its loops rely on that: sizes without a
 * loop of their own go in steps of eight lines. An access of 192 bytes would move 512 and count
 * 192, and the range's last one would go beyond it.
 */
static bool perma_validate(struct mb_job *job, struct tb_error *error)
{
    uint64_t bytes = ((const struct params *)job->params)->bytes;
    if (bytes & (bytes - 1))
        return tb_fail(error, "access_bytes: PerMA-Bench takes powers of two alone");
    return validate(job, error);
}

struct pool {
    char *base;
    struct params params;
    void **batches;
    uint64_t batch_count, next;
};
static struct pool pools[MOST_THREADS];

static void fill(struct pool *pool, struct mb_thread *thread)
{
    const struct params *params = &pool->params;
    uint64_t slots = thread->range_bytes / params->bytes, a_batch = CHUNK / params->bytes;
    uint64_t wanted = params->order ? ADDRESSES : slots;
    char **addresses = malloc(a_batch * sizeof *addresses);
    pool->batch_count = wanted / a_batch;
    pool->batches = calloc(pool->batch_count, sizeof *pool->batches);
    for (uint64_t b = 0; b < pool->batch_count; b++) {
        for (uint64_t i = 0; i < a_batch; i++) {
            uint64_t slot = b * a_batch + i;
            if (params->order)
                slot = (uint64_t)tb_random_between(&thread->random, 0, (int64_t)slots - 1);
            addresses[i] = thread->base + slot * params->bytes;
        }
        pool->batches[b] = perma_batch_new(addresses, a_batch, params->bytes, params->access);
    }
    free(addresses);
}

static void perma_begin(struct mb_thread *thread)
{
    struct pool *pool = &pools[thread->index];
    if (pool->base == thread->base &&
        !memcmp(&pool->params, thread->job->params, sizeof pool->params)) {
        if (!pool->params.order)
            pool->next = 0;
        return;
    }
    for (uint64_t b = 0; b < pool->batch_count; b++)
        perma_batch_free(pool->batches[b]);
    free(pool->batches);
    *pool = (struct pool){.base = thread->base, .params = *(struct params *)thread->job->params};
    fill(pool, thread);
}

static void perma_work(struct mb_thread *thread, uint64_t operations)
{
    struct pool *pool = &pools[thread->index];
    uint64_t a_batch = CHUNK / pool->params.bytes;
    for (uint64_t done = 0; done < operations; done += a_batch) {
        perma_batch_run(pool->batches[pool->next]);
        pool->next = (pool->next + 1) % pool->batch_count;
        count(thread, a_batch);
    }
}

static const struct mb_kernel perma = {
    .name = "perma", .params = keys, .params_bytes = sizeof(struct params),
    .validate = perma_validate,
    .begin = perma_begin, .work = perma_work,
};

/* ---- the bare loop ---- */

static struct refbench_thread loops[MOST_THREADS];

static void refbench_begin(struct mb_thread *thread)
{
    const struct params *params = thread->job->params;
    struct refbench_thread *loop = &loops[thread->index];
    uint64_t at = 0;
    *loop = (struct refbench_thread){
        .base = thread->base, .bytes = thread->range_bytes, .access_bytes = params->bytes,
        .at = at / params->bytes * params->bytes, .access = params->access,
        .sequential = !params->order, .random = tb_random_next(&thread->random) | 1,
    };
}

static void refbench_work(struct mb_thread *thread, uint64_t operations)
{
    const struct params *params = thread->job->params;
    uint64_t a_chunk = CHUNK / params->bytes;
    for (uint64_t done = 0; done < operations; done += a_chunk) {
        refbench_run(&loops[thread->index], a_chunk);
        count(thread, a_chunk);
    }
}

static const struct mb_kernel refbench = {
    .name = "refbench", .params = keys, .params_bytes = sizeof(struct params), .validate = validate,
    .begin = refbench_begin, .work = refbench_work,
};

/* ---- multichase: its walk through the whole range, a line each ---- */

int verbosity; /* multichase's permutations ask for it */
static void *first;

static bool multichase_prepare(struct mb_job *job, struct tb_error *error)
{
    (void)error;
    struct generate_chase_common_args args = {
        .arena = job->base, .total_memory = job->range_bytes, .stride = MB_LINE,
        .tlb_locality = job->range_bytes, .gen_permutation = gen_random_permutation,
        .nr_mixer_indices = MB_LINE / sizeof(void *),
    };
    if (!rng_buf)
        rng_init(1);
    generate_chase_mixer(&args, 1);
    first = generate_chase(&args, 0);
    return true;
}

static void multichase_work(struct mb_thread *thread, uint64_t operations)
{
    void *at = first;
    for (uint64_t done = 0; done < operations; done += 256) {
#pragma GCC unroll 256
        for (int i = 0; i < 256; i++)
            at = *(void *volatile *)at;
        thread->done.operations += 256;
        thread->done.read_bytes += 256 * MB_LINE;
    }
    first = at;
}

static const struct mb_kernel multichase = {
    .name = "multichase", .params = keys + 3,
    .prepare = multichase_prepare, .work = multichase_work,
};

const struct mb_kernel *__real_mb_kernel_named(const char *name);
const struct mb_kernel *__wrap_mb_kernel_named(const char *name);

const struct mb_kernel *__wrap_mb_kernel_named(const char *name)
{
    const struct mb_kernel *const ours[] = {&perma, &refbench, &multichase};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i]->name, name) == 0)
            return ours[i];
    return __real_mb_kernel_named(name);
}

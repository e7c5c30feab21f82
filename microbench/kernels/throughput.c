/*
 * throughput: independent operations, as fast as they go.
 *
 *   {"name": "writer", "kind": "throughput", "target": "near", "threads": 2,
 *    "operation": "store", "flush": "clwb", "fence": "sfence", "access_bytes": 256,
 *    "pattern": "random"}
 *
 * A mix of reads and writes ("operation": "mixed", "read_share": 0.7) and of two targets
 * ("second": {"target": "near", "share": 0.5}) alternates in runs: of 32 operations so many
 * are of each sort as their share is, the remainder carried on. Drawn one by one, their
 * order would cost a mispredicted branch for half of them, a third of a random read's time.
 */
#include "../kernel.h"
#include "../loops/throughput.h"

enum { ROUND = 32, READS = 0, WRITES = 1, SORTS = 4 };

struct params {
    struct mb_operation operation; /* of mixed: what writes */
    enum mb_access store;          /* of mixed */
    double read_share;             /* of mixed */
    bool mixed;
    struct mb_pattern pattern;
    struct mb_second second;
    double share[SORTS]; /* of [reads, writes] on the target, [reads, writes] on the second */
    mb_loop loops[2];    /* reads, writes */
    struct mb_shape shapes[2];
};

struct own {
    struct mb_cursor cursors[2]; /* of the target, and of the second */
    uint64_t since[SORTS];       /* pieces after the last fence */
    uint64_t done[SORTS], rounds;
    uint64_t left[SORTS];        /* of the round under way */
};

static mb_loop loop_of(const struct mb_operation *op)
{
    const mb_loops *loops = MB_BY_ISA(op->isa, &mb_loops);
    return (*loops)[op->access][op->flush][op->flush_each_line][op->fence];
}

static struct mb_shape shape_of(const struct mb_operation *op)
{
    uint64_t every = op->fence == MB_NO_FENCE ? op->bytes : op->fence_every_bytes;
    uint64_t piece = every < op->bytes ? every : op->bytes;
    return (struct mb_shape){
        .piece_bytes = piece, .pieces = op->bytes / piece, .group = every / piece};
}

static bool is_load(enum mb_access access)
{
    return access == MB_LOAD || access == MB_NTLOAD;
}

/* Those of mb_access_names, and reads and writes. */
static const char *const operations[] = {"load", "ntload", "store", "ntstore", "empty", "mixed",
                                         NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct params, "operation", operation.access, operations, 0, -1),
    TB_WORD_KEY(struct params, "store", store, mb_access_names, 0, MB_STORE),
    TB_NUMBER_KEY(struct params, "read_share", read_share, 0, 1, 0.5),
    MB_OPERATION_KEYS(struct params, operation),
    MB_PATTERN_KEYS(struct params, pattern, -1),
    TB_OTHER_KEY("second"),
    {0},
};

static void set_shares(struct params *params)
{
    double reads = params->mixed ? params->read_share : is_load(params->operation.access);
    double on_second = params->second.target ? params->second.share : 0;
    params->share[READS] = reads * (1 - on_second);
    params->share[WRITES] = (1 - reads) * (1 - on_second);
    params->share[2 + READS] = reads * on_second;
    params->share[2 + WRITES] = (1 - reads) * on_second;
}

static bool choose_loops(struct params *params, struct tb_error *error)
{
    const struct mb_operation *op = &params->operation;
    if (op->access == MB_EMPTY || (params->mixed && is_load(op->access)))
        return tb_fail(error, "%s: \"%s\" moves no bytes",
                       params->mixed ? "store" : "operation", mb_access_names[op->access]);
    struct mb_operation load = *op;
    if (params->mixed)
        load = (struct mb_operation){.isa = op->isa, .access = MB_LOAD, .bytes = op->bytes};
    params->loops[READS] = loop_of(&load);
    params->shapes[READS] = shape_of(&load);
    params->loops[WRITES] = loop_of(op);
    params->shapes[WRITES] = shape_of(op);
    return true;
}

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct params *params = job->params;
    params->mixed = params->operation.access == MB_ACCESSES;
    if (params->mixed)
        params->operation.access = params->store;
    if (!mb_operation_settle(job, &params->operation, error) ||
        !mb_pattern_settle(job, params->operation.bytes, &params->pattern, error) ||
        !mb_second_read(job, &params->second, error) || !choose_loops(params, error))
        return false;
    set_shares(params);
    uint64_t part = mb_part_bytes(job, params->second.range_bytes);
    return !params->second.target ||
           mb_pattern_fits(job, &params->pattern, params->operation.bytes, part, error) ||
           tb_fail_within(error, "second: ");
}

static void begin(struct mb_thread *thread)
{
    const struct params *params = thread->job->params;
    struct own *own = thread->own = tb_allocate(1, sizeof *own);
    uint64_t bytes = params->operation.bytes, part;
    mb_cursor_init(&own->cursors[0], thread, &params->pattern, bytes, thread->base,
                   thread->range_bytes, 0);
    if (params->second.target) {
        char *base = mb_second_part(thread, &params->second, &part);
        mb_cursor_init(&own->cursors[1], thread, &params->pattern, bytes, base, part, 1);
    }
}

static void end(struct mb_thread *thread)
{
    struct own *own = thread->own;
    mb_cursor_free(&own->cursors[0]);
    mb_cursor_free(&own->cursors[1]);
}

/* `count` operations of one sort. */
static void access_some(struct mb_thread *thread, int sort, uint64_t count)
{
    const struct params *params = thread->job->params;
    struct own *own = thread->own;
    int writes = sort % 2;
    for (uint64_t left = count; left > 0;) {
        struct mb_span span = mb_cursor_next(&own->cursors[sort / 2], left);
        own->since[sort] =
            params->loops[writes](&span, &params->shapes[writes], own->since[sort]);
        left -= span.count;
    }
    uint64_t bytes = count * params->operation.bytes;
    *(writes ? &thread->done.written_bytes : &thread->done.read_bytes) += bytes;
    thread->done.second_bytes += sort / 2 ? bytes : 0;
    thread->done.operations += count;
    own->done[sort] += count;
}

/* How many of the round's operations each sort has: what is missing of its share by now. */
static void begin_round(struct own *own, const struct params *params)
{
    uint64_t spread = 0;
    int largest = 0;
    own->rounds++;
    for (int sort = 0; sort < SORTS; sort++) {
        double due = params->share[sort] * ROUND * (double)own->rounds;
        uint64_t by_now = (uint64_t)due;
        own->left[sort] = by_now > own->done[sort] ? by_now - own->done[sort] : 0;
        if (own->left[sort] > ROUND - spread)
            own->left[sort] = ROUND - spread;
        spread += own->left[sort];
        largest = params->share[sort] > params->share[largest] ? sort : largest;
    }
    own->left[largest] += ROUND - spread;
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct params *params = thread->job->params;
    struct own *own = thread->own;
    for (int sort = 0; sort < SORTS; sort++) {
        if (params->share[sort] == 1) { /* the usual case: one sort of operation */
            access_some(thread, sort, operations);
            return;
        }
    }
    for (uint64_t left = operations; left > 0;) {
        uint64_t in_round = 0;
        for (int sort = 0; sort < SORTS && left > 0; sort++) {
            uint64_t count = own->left[sort] < left ? own->left[sort] : left;
            if (count > 0)
                access_some(thread, sort, count);
            own->left[sort] -= count;
            left -= count;
        }
        for (int sort = 0; sort < SORTS; sort++)
            in_round += own->left[sort];
        if (in_round == 0)
            begin_round(own, params);
    }
}

static struct mb_ceiling ceiling(const struct mb_job *job)
{
    static const struct mb_ceiling of[MB_ISAS] = {
        [MB_SSE2] = {.load = 3 * 16, .store = 2 * 16}, /* ports times bytes, of any core sold */
        [MB_AVX2] = {.load = 3 * 32, .store = 2 * 32},
        [MB_AVX512] = {.load = 2 * 64, .store = 64},
        [MB_NEON] = {.load = 4 * 16, .store = 2 * 16},
    };
    return of[((const struct params *)job->params)->operation.isa];
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct params *params = job->params;
    *persist = (struct mb_persist){.non_temporal = params->operation.access == MB_NTSTORE,
                                   .flush = params->operation.flush,
                                   .fence = params->operation.fence,
                                   .second_alone = params->share[WRITES] == 0};
    if (params->share[2 + WRITES] > 0)
        persist->second = params->second.target;
    return params->share[WRITES] + params->share[2 + WRITES] > 0;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct params *params = job->params;
    const struct mb_operation *op = &params->operation;
    json_object_set_new(facts, "isa", json_string(mb_isa_names[op->isa]));
    if (op->access == MB_NTLOAD)
        json_object_set_new(facts, "note",
                            json_string("a non-temporal load of write-back memory is an "
                                        "ordinary load to this processor"));
}

const struct mb_kernel mb_throughput = {
    .name = "throughput",
    .params = params,
    .params_bytes = sizeof(struct params),
    .validate = validate,
    .begin = begin,
    .work = work,
    .end = end,
    .report = report,
    .ceiling = ceiling,
    .persists = persists,
};

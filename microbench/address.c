/*
 * Where the next access goes.
 *
 * Sequential threads that share a partition take its chunks in turn; strided ones each have
 * a slice, and start each lap one access further, so that a lap finds other lines than the
 * one before. Random addresses come from a ring: generated in the timed loop they would cost
 * 40 % at 64 bytes. The ring stays in the core's own cache, for it would otherwise be memory
 * traffic itself (at 64 bytes an eighth of what is measured). So that it does not come back to
 * lines that are still cached, it is turned by a new random distance after each round; that
 * takes some 2 % of the time of 64-byte loads, and is not taken off: a rate is bytes over time.
 * Whatever is done between accesses instead, each by each or slice by slice, keeps the core's
 * window from as many misses, and costs 25 to 40 %. Zipf's ring is long, and stays as it is.
 */
#include "kernel.h"
#include "zipf.h"

#define DRAWS (UINT64_C(1) << 12)

const char *const mb_orders[] = {"sequential", "sequential_desc", "random", "zipf",
                                 "strided",    "hotspot",         "dimms",  NULL};

bool mb_pattern_settle(const struct mb_job *job, uint64_t access_bytes, struct mb_pattern *pattern,
                       struct tb_error *error)
{
    uint64_t range = mb_part_bytes(job, job->range_bytes);
    pattern->stride_bytes = pattern->stride_bytes ? pattern->stride_bytes : access_bytes;
    pattern->hotspot_bytes = pattern->hotspot_bytes ? pattern->hotspot_bytes : range;
    if (pattern->hotspot_bytes > range)
        return tb_fail(error, "hotspot_bytes: must be from one access to a partition's range (%"
                              PRIu64 " bytes)", range);
    return mb_pattern_fits(job, pattern, access_bytes, range, error);
}

static bool fits_stripes(const struct mb_job *job, const struct mb_pattern *pattern,
                         uint64_t access_bytes, uint64_t range_bytes, struct tb_error *error)
{
    if (job->partitions != 1)
        return tb_fail(error, "partitions: must be 1 with pattern \"dimms\"");
    if (MB_BLOCK % access_bytes)
        return tb_fail(error, "access_bytes: pattern \"dimms\" takes parts of a block of 4096 bytes "
                              "(got %" PRIu64 ")", access_bytes);
    if (pattern->stripe_bytes % MB_BLOCK || pattern->stripe_bytes > range_bytes)
        return tb_fail(error, "stripe_bytes: must be blocks of 4096 bytes, and at most the range");
    if ((uint64_t)pattern->dimms > pattern->stripe_bytes / MB_BLOCK)
        return tb_fail(error, "dimms: %" PRId64 " is more than the %" PRIu64 " blocks of a stripe",
                       pattern->dimms, pattern->stripe_bytes / MB_BLOCK);
    return true;
}

bool mb_pattern_fits(const struct mb_job *job, const struct mb_pattern *pattern,
                     uint64_t access_bytes, uint64_t range_bytes, struct tb_error *error)
{
    enum mb_order order = pattern->order;
    bool scattered = order == MB_RANDOM || order == MB_ZIPF || order == MB_HOTSPOT;
    uint64_t sharers = job->threads / job->partitions;
    if (order == MB_OF_DIMMS)
        return fits_stripes(job, pattern, access_bytes, range_bytes, error);
    if (order == MB_HOTSPOT && pattern->hotspot_bytes < access_bytes)
        return tb_fail(error, "hotspot_bytes: %" PRIu64 " is less than an access of %" PRIu64,
                       pattern->hotspot_bytes, access_bytes);
    if (range_bytes / (scattered ? 1 : sharers) < access_bytes)
        return tb_fail(error, "range_bytes: %" PRIu64 " threads share a partition of %" PRIu64
                              " bytes: less than an access each", sharers, range_bytes);
    /* Accesses that overlap or stay in one place: the cache would serve them. */
    if (order == MB_STRIDED && pattern->stride_bytes < access_bytes)
        return tb_fail(error, "stride_bytes: %" PRIu64 " is less than an access of %" PRIu64,
                       pattern->stride_bytes, access_bytes);
    if (order == MB_STRIDED && range_bytes / sharers < pattern->stride_bytes + access_bytes)
        return tb_fail(error, "stride_bytes: %" PRIu64 " in a thread's %" PRIu64 " bytes: it needs "
                              "room for two accesses", pattern->stride_bytes, range_bytes / sharers);
    return true;
}

static uint64_t slots_of(const struct mb_cursor *cursor)
{
    uint64_t bytes = cursor->pattern.order == MB_HOTSPOT ? cursor->pattern.hotspot_bytes
                                                         : cursor->range_bytes;
    return bytes / cursor->access_bytes;
}

/* Up to `count`, without it. */
static uint64_t random_below(struct mb_cursor *cursor, uint64_t count)
{
    return (uint64_t)tb_random_between(&cursor->random, 0, (int64_t)count - 1);
}

static uint64_t random_offset(struct mb_cursor *cursor)
{
    return random_below(cursor, slots_of(cursor)) * cursor->access_bytes;
}

static uint64_t random_stripe(struct mb_cursor *cursor)
{
    uint64_t stripe = cursor->pattern.stripe_bytes;
    return random_below(cursor, cursor->range_bytes / stripe) * stripe;
}

/* Thread k accesses the DIMMs from the k-th on: as many threads on each (FAST'20, Figure 15). */
static uint64_t offset_on_dimms(struct mb_cursor *cursor)
{
    uint64_t dimm = cursor->thread + random_below(cursor, (uint64_t)cursor->pattern.dimms);
    uint64_t block = dimm % (cursor->pattern.stripe_bytes / MB_BLOCK) * MB_BLOCK;
    uint64_t access = random_below(cursor, MB_BLOCK / cursor->access_bytes) * cursor->access_bytes;
    return random_stripe(cursor) + block + access;
}

static void draw_ring(struct mb_cursor *cursor)
{
    bool skewed = cursor->pattern.order == MB_ZIPF;
    cursor->ring_count = skewed ? mb_zipf_draws(cursor->access_bytes) : DRAWS;
    cursor->ring = tb_allocate(cursor->ring_count, sizeof *cursor->ring);
    if (skewed) {
        mb_zipf_fill(cursor, slots_of(cursor));
        return;
    }
    bool of_dimms = cursor->pattern.order == MB_OF_DIMMS;
    for (uint64_t i = 0; i < cursor->ring_count; i++)
        cursor->ring[i] = cursor->base + (of_dimms ? offset_on_dimms : random_offset)(cursor);
}

/* A thread's slice of the partition for strided access: whole accesses. */
static void take_slice(struct mb_cursor *cursor)
{
    uint64_t slice = cursor->range_bytes / cursor->sharers / cursor->access_bytes *
                     cursor->access_bytes;
    cursor->base += cursor->place * slice;
    cursor->range_bytes = slice;
}

static void take_chunks(struct mb_cursor *cursor)
{
    uint64_t whole = cursor->access_bytes, share = cursor->range_bytes / cursor->sharers;
    uint64_t chunk = cursor->sharers == 1 || cursor->pattern.chunk_bytes > share
                         ? share
                         : cursor->pattern.chunk_bytes;
    cursor->pattern.chunk_bytes = chunk < whole ? whole : chunk / whole * whole;
    cursor->lap = cursor->place;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void mb_cursor_init(struct mb_cursor *cursor, const struct mb_thread *thread,
                    const struct mb_pattern *pattern, uint64_t access_bytes, char *base,
                    uint64_t range_bytes, uint64_t stream)
{
    *cursor = (struct mb_cursor){
        .pattern = *pattern,
        .access_bytes = access_bytes,
        .base = base,
        .range_bytes = range_bytes / access_bytes * access_bytes,
        .sharers = thread->sharers,
        .place = thread->place,
        .thread = thread->index,
        .random = thread->random,
    };
    /* Asked for of a partition, it may be more than a second target has, or a chain's step. */
    cursor->pattern.hotspot_bytes = least(pattern->hotspot_bytes, cursor->range_bytes);
    tb_random_seed(&cursor->random, tb_random_next(&cursor->random), stream);
    if (pattern->order == MB_STRIDED)
        take_slice(cursor);
    else if (pattern->order == MB_SEQUENTIAL || pattern->order == MB_SEQUENTIAL_DESC)
        take_chunks(cursor);
    else
        draw_ring(cursor);
}

void mb_cursor_free(struct mb_cursor *cursor)
{
    free(cursor->ring);
    cursor->ring = NULL;
}

/*
 * Each address plus one random distance, around the range: without a branch, for half of them
 * would be mispredicted, and that takes nine times as long.
 */
static inline __attribute__((always_inline)) void turn(char **ring, uint64_t count, char *base,
                                                       uint64_t range, uint64_t distance)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t beyond = (uint64_t)(ring[i] - base) + distance - range;
        ring[i] = base + (beyond + (range & -(beyond >> 63)));
    }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,prefer-vector-width=512"))) static void
turn_avx512(char **ring, uint64_t count, char *base, uint64_t range, uint64_t distance)
{
    turn(ring, count, base, range, distance);
}

__attribute__((target("avx2"))) static void
turn_avx2(char **ring, uint64_t count, char *base, uint64_t range, uint64_t distance)
{
    turn(ring, count, base, range, distance);
}
#endif

static void turn_ring(struct mb_cursor *cursor)
{
    /* By whole stripes, a thread stays on its DIMMs. */
    bool of_dimms = cursor->pattern.order == MB_OF_DIMMS;
    uint64_t whole = of_dimms ? cursor->pattern.stripe_bytes : cursor->access_bytes;
    uint64_t range = (of_dimms ? cursor->range_bytes / whole : slots_of(cursor)) * whole;
    uint64_t distance = (of_dimms ? random_stripe : random_offset)(cursor);
#if defined(__x86_64__)
    if (mb_cpu.isa[MB_AVX512])
        turn_avx512(cursor->ring, cursor->ring_count, cursor->base, range, distance);
    else if (mb_cpu.isa[MB_AVX2])
        turn_avx2(cursor->ring, cursor->ring_count, cursor->base, range, distance);
    else
#endif
        turn(cursor->ring, cursor->ring_count, cursor->base, range, distance);
}

static struct mb_span next_scattered(struct mb_cursor *cursor, uint64_t wanted)
{
    if (cursor->at == cursor->ring_count) {
        cursor->at = 0;
        if (cursor->pattern.order != MB_ZIPF)
            turn_ring(cursor);
    }
    struct mb_span span = {
        .scattered = cursor->ring + cursor->at,
        .count = least(wanted, cursor->ring_count - cursor->at),
    };
    cursor->at += span.count;
    return span;
}

static struct mb_span next_sequential(struct mb_cursor *cursor, uint64_t wanted)
{
    uint64_t chunk = cursor->pattern.chunk_bytes, begin = cursor->lap * chunk;
    if (begin >= cursor->range_bytes) {
        cursor->lap = cursor->place;
        begin = cursor->lap * chunk;
    }
    uint64_t accesses = least(chunk, cursor->range_bytes - begin) / cursor->access_bytes;
    uint64_t count = least(wanted, accesses - cursor->at), first = begin / cursor->access_bytes;
    bool down = cursor->pattern.order == MB_SEQUENTIAL_DESC;
    uint64_t slots = cursor->range_bytes / cursor->access_bytes;
    uint64_t slot = down ? slots - 1 - first - cursor->at : first + cursor->at;
    cursor->at += count;
    if (cursor->at == accesses) {
        cursor->at = 0;
        cursor->lap += cursor->sharers;
    }
    int64_t step = (int64_t)cursor->access_bytes;
    return (struct mb_span){.base = cursor->base + slot * cursor->access_bytes,
                            .step_bytes = down ? -step : step,
                            .count = count};
}

static struct mb_span next_strided(struct mb_cursor *cursor, uint64_t wanted)
{
    uint64_t stride = cursor->pattern.stride_bytes, access = cursor->access_bytes;
    uint64_t shift = cursor->lap * access % stride;
    if (shift + access > cursor->range_bytes)
        shift = 0;
    uint64_t accesses = (cursor->range_bytes - shift - access) / stride + 1;
    uint64_t count = least(wanted, accesses - cursor->at);
    char *first = cursor->base + shift + cursor->at * stride;
    cursor->at += count;
    if (cursor->at == accesses) {
        cursor->at = 0;
        cursor->lap++;
    }
    return (struct mb_span){.base = first, .step_bytes = (int64_t)stride, .count = count};
}

struct mb_span mb_cursor_next(struct mb_cursor *cursor, uint64_t wanted)
{
    switch (cursor->pattern.order) {
    case MB_SEQUENTIAL:
    case MB_SEQUENTIAL_DESC:
        return next_sequential(cursor, wanted);
    case MB_STRIDED:
        return next_strided(cursor, wanted);
    default:
        return next_scattered(cursor, wanted);
    }
}

/*
 * Chains of reads and writes, as an index or a table makes them (PerMA-Bench's
 * custom_operations).
 *
 *   {"name": "hash index update", "kind": "chain", "target": "t0", "threads": 1,
 *    "steps": [{"operation": "read", "bytes": 512},
 *              {"operation": "write", "bytes": 64, "persist": "cache", "offset_bytes": 128},
 *              {"operation": "write", "bytes": 64, "persist": "cache", "offset_bytes": -128}],
 *    "dependent": true, "sample_every": 0}
 *
 * A read goes to an address of its own (by default random, a multiple of its size), which the
 * processor does not know before the read before it in the chain has brought all of its lines. A
 * write goes to the address of the operation before it plus its offset. persist: cache (store,
 * clwb, sfence), cacheinv (clflushopt), nocache (ntstore, sfence), none (store).
 *
 * "dependent": a chain waits until the one before it is complete: read, and its writes out of the
 * core; duration / operations is a chain's latency. Otherwise chains overlap as far as the core
 * can: duration / operations is the inverse of their throughput, shorter than any of them.
 * sample_every: each n-th chain is timed between two waiting stamps, alone. What those cost is
 * part of its time (`empty_body_ns`), and an n-th of it part of duration / operations: with n
 * at 1 that is the latency and two stamps.
 *
 * Where PerMA-Bench is otherwise: there a read of 1 KiB and more touches 512 bytes, and the
 * first read of a chain waits for nothing.
 */
#include "loops/chained.h"
#include "support.h"
#include "timer_overhead.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_STEPS = 64, BATCH = 256 };

struct step {
    bool write, second;
    uint64_t bytes;
    int64_t offset_bytes; /* of a write, from the operation before */
    enum mb_chain_persist { MB_NONE, MB_CACHE, MB_CACHEINV, MB_NOCACHE } persist;
    /* Of a read: how far the writes after it reach below and above its own bytes. */
    uint64_t below, above;
};

struct chain {
    struct step steps[MOST_STEPS];
    size_t count;
    bool dependent, writes;
    enum mb_isa isa;
    struct mb_pattern pattern;
    struct mb_second second;
    struct mb_counts each; /* what a chain moves */
    struct mb_sampler sampler;
};

struct thread_chain {
    struct mb_link links[MOST_STEPS];
    struct mb_cursor cursors[MOST_STEPS]; /* of reads */
    struct mb_span spans[MOST_STEPS];
    uint64_t used[MOST_STEPS];            /* of the span */
    uint64_t until_sample;
};

static const char *const persists_words[] = {"none", "cache", "cacheinv", "nocache", NULL};
static const enum mb_flush persist_flush[] = {
    [MB_CACHE] = MB_CLWB, [MB_CACHEINV] = MB_CLFLUSHOPT, [MB_NOCACHE] = MB_NO_FLUSH};

static bool read_step(const json_t *given, struct step *step, struct tb_error *error)
{
    static const char *const operations[] = {"read", "write", NULL};
    static const char *const places[] = {"first", "second", NULL};
    int operation, place, persist;
    if (!tb_read_word(given, "operation", operations, -1, &operation, error) ||
        !tb_read_word(given, "target", places, 0, &place, error) ||
        !mb_read_bytes(given, "bytes", TB_REQUIRED, &step->bytes, error) ||
        !tb_read_word(given, "persist", persists_words, MB_NONE, &persist, error) ||
        !tb_read_integer(given, "offset_bytes", INT32_MIN, INT32_MAX, 0, &step->offset_bytes, error))
        return false;
    step->write = operation == 1;
    step->second = place == 1;
    step->persist = (enum mb_chain_persist)persist;
    if (step->offset_bytes % (int64_t)MB_LINE != 0)
        return tb_fail(error, "offset_bytes: must be a multiple of 64");
    if (!step->write && (step->offset_bytes != 0 || step->persist != MB_NONE))
        return tb_fail(error, "persist, offset_bytes: not for a read");
    if (!mb_cpu.flush[persist_flush[persist]])
        return tb_fail(error, "persist: this processor has no %s",
                       mb_flush_names[persist_flush[persist]]);
    return true;
}

static bool read_steps(const struct mb_job *job, struct chain *chain, struct tb_error *error)
{
    const json_t *steps = json_object_get(job->given, "steps"), *given;
    size_t i;
    struct step *reader = NULL;
    int64_t at = 0;
    if (json_array_size(steps) == 0 || json_array_size(steps) > MOST_STEPS)
        return tb_fail(error, "steps: must be a list of 1 to %d", MOST_STEPS);
    json_array_foreach(steps, i, given) {
        struct step *step = &chain->steps[chain->count++];
        if (!read_step(given, step, error))
            return tb_fail_within(error, "steps[%zu]: ", i);
        if (!step->write) {
            reader = step;
            at = 0;
            chain->each.read_bytes += step->bytes;
        } else {
            if (!reader || reader->second != step->second)
                return tb_fail(error, "steps[%zu]: a write goes to the memory of the operation "
                                      "before it, and a chain begins with a read", i);
            at += step->offset_bytes;
            int64_t end = at + (int64_t)step->bytes - (int64_t)reader->bytes;
            if (-at > (int64_t)reader->below)
                reader->below = (uint64_t)-at;
            if (end > (int64_t)reader->above)
                reader->above = (uint64_t)end;
            chain->writes = true;
            chain->each.written_bytes += step->bytes;
        }
        if (step->second)
            chain->each.second_bytes += step->bytes;
    }
    chain->each.operations = 1;
    return true;
}

/* A read's part of the range: so that what follows it stays within, at multiples of its size. */
static void room_of(const struct step *step, uint64_t range, uint64_t *skip, uint64_t *room)
{
    *skip = (step->below + step->bytes - 1) / step->bytes * step->bytes;
    *room = range < *skip + step->above ? 0 : range - *skip - step->above;
}

static bool fits(const struct mb_job *job, const struct chain *chain, struct tb_error *error)
{
    uint64_t range = mb_part_bytes(job, job->range_bytes);
    uint64_t second = mb_part_bytes(job, chain->second.range_bytes);
    for (size_t i = 0; i < chain->count; i++) {
        const struct step *step = &chain->steps[i];
        uint64_t skip, room;
        if (step->second && !chain->second.target)
            return tb_fail(error, "steps[%zu]: \"target\": \"second\", and the job has no "
                                  "\"second\"", i);
        room_of(step, step->second ? second : range, &skip, &room);
        if (!step->write && room < step->bytes)
            return tb_fail(error, "steps[%zu]: with the writes after it, it needs %" PRIu64 " "
                                  "bytes; a partition has %" PRIu64, i,
                           skip + step->bytes + step->above, step->second ? second : range);
        if (!step->write && !mb_pattern_fits(job, &chain->pattern, step->bytes, room, error))
            return tb_fail_within(error, "steps[%zu]: ", i);
    }
    return true;
}

static bool read_pattern(struct mb_job *job, struct mb_pattern *pattern, struct tb_error *error)
{
    if (json_object_get(job->given, "pattern"))
        return mb_pattern_read(job, MB_LINE, pattern, error);
    *pattern = (struct mb_pattern){.order = MB_RANDOM};
    return true;
}

static bool read(struct mb_job *job, struct tb_error *error)
{
    struct chain *chain = job->params = tb_allocate(1, sizeof *chain);
    const json_t *dependent = json_object_get(job->given, "dependent");
    if (!json_is_boolean(dependent))
        return tb_fail(error, "dependent: must be true (chains wait for each other: latency) or "
                              "false (they overlap: throughput)");
    chain->dependent = json_is_true(dependent);
    return read_steps(job, chain, error) && mb_isa_read(job, &chain->isa, error) &&
           mb_sampler_read(job, &chain->sampler, error) &&
           read_pattern(job, &chain->pattern, error) &&
           mb_second_read(job, &chain->second, error) && fits(job, chain, error);
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct chain *chain = job->params;
    (void)error;
    mb_sampler_prepare(&chain->sampler, chain->isa, job->base);
    return true;
}

static mb_link_do *link_of(const struct chain *chain, const struct step *step)
{
    const struct mb_links *links = mb_links_of(chain->isa);
    if (!step->write)
        return links->read;
    return links->write[step->persist];
}

static void begin(struct mb_thread *thread)
{
    const struct chain *chain = thread->job->params;
    struct thread_chain *own = thread->own = tb_allocate(1, sizeof *own);
    for (size_t i = 0; i < chain->count; i++) {
        const struct step *step = &chain->steps[i];
        uint64_t range = thread->range_bytes, skip, room;
        char *base = thread->base;
        own->links[i] = (struct mb_link){link_of(chain, step), step->bytes, step->offset_bytes,
                                         !step->write};
        if (step->write)
            continue;
        if (step->second)
            base = mb_second_part(thread, &chain->second, &range);
        room_of(step, range, &skip, &room);
        mb_cursor_init(&own->cursors[i], thread, &chain->pattern, step->bytes, base + skip, room,
                       i);
    }
    own->until_sample = (uint64_t)chain->sampler.every;
}

/* Draws the addresses of the next chains' reads; returns their number, at most `wanted`. */
static uint64_t place(const struct chain *chain, struct thread_chain *own, uint64_t wanted)
{
    uint64_t chains = wanted;
    for (size_t i = 0; i < chain->count; i++) {
        if (chain->steps[i].write)
            continue;
        if (own->used[i] == own->spans[i].count) {
            own->spans[i] = mb_cursor_next(&own->cursors[i], BATCH);
            own->used[i] = 0;
        }
        if (own->spans[i].count - own->used[i] < chains)
            chains = own->spans[i].count - own->used[i];
    }
    return chains;
}

/* value: what the read before brought, whose every bit decides where the next one goes. */
static inline uint64_t run_chain(const struct chain *chain, const struct thread_chain *own,
                                 uint64_t n, uint64_t value)
{
    char *at = NULL;
    for (size_t i = 0; i < chain->count; i++) {
        const struct mb_link *link = &own->links[i];
        at = link->read ? mb_depend(mb_span_at(&own->spans[i], own->used[i] + n), value)
                        : at + link->offset_bytes;
        value = link->run(at, link->bytes, value);
    }
    return value;
}

static void run_timed(struct mb_thread *thread, const struct chain *chain,
                      const struct thread_chain *own, uint64_t n)
{
    uint64_t from = mb_clock_begin();
    mb_used(run_chain(chain, own, n, 0));
    mb_sample_end(thread, from);
}

static void run_batch(struct mb_thread *thread, uint64_t chains)
{
    const struct chain *chain = thread->job->params;
    struct thread_chain *own = thread->own;
    uint64_t value = 0;
    for (uint64_t n = 0; n < chains; n++) {
        if (mb_sample_due(&chain->sampler, &own->until_sample)) {
            run_timed(thread, chain, own, n);
            continue;
        }
        value = run_chain(chain, own, n, chain->dependent ? value : 0);
        if (chain->dependent && chain->writes)
            mb_full_fence();
    }
    mb_used(value);
    for (size_t i = 0; i < chain->count; i++)
        own->used[i] += chains;
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct chain *chain = thread->job->params;
    for (uint64_t left = operations, batch; left > 0; left -= batch) {
        batch = place(chain, thread->own, left < BATCH ? left : BATCH);
        run_batch(thread, batch);
    }
    thread->done.operations += operations;
    thread->done.read_bytes += operations * chain->each.read_bytes;
    thread->done.written_bytes += operations * chain->each.written_bytes;
    thread->done.second_bytes += operations * chain->each.second_bytes;
}

static void end(struct mb_thread *thread)
{
    const struct chain *chain = thread->job->params;
    struct thread_chain *own = thread->own;
    for (size_t i = 0; i < chain->count; i++)
        mb_cursor_free(&own->cursors[i]);
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct chain *chain = job->params;
    json_object_set_new(facts, "isa", json_string(mb_isa_names[chain->isa]));
    json_object_set_new(facts, "chains",
                        json_string(chain->dependent ? "dependent: latency"
                                                     : "independent: throughput"));
    json_object_set_new(facts, "sample_every", json_integer(chain->sampler.every));
    mb_sampler_report(&chain->sampler, facts);
}

/* The weakest of its writes decides. */
static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct chain *chain = job->params;
    enum mb_chain_persist weakest = MB_NOCACHE;
    bool first = false, second = false;
    for (size_t i = 0; i < chain->count; i++) {
        const struct step *step = &chain->steps[i];
        if (step->write && step->persist < weakest)
            weakest = step->persist;
        first = first || (step->write && !step->second);
        second = second || (step->write && step->second);
    }
    *persist = (struct mb_persist){
        .non_temporal = weakest == MB_NOCACHE,
        .flush = persist_flush[weakest],
        .fence = weakest == MB_NONE ? MB_NO_FENCE : MB_SFENCE,
        .second = second ? chain->second.target : NULL,
        .second_alone = !first,
    };
    return chain->writes;
}

static const char *const keys[] = {"steps",         "dependent", "sample_every", "isa",
                                   MB_PATTERN_KEYS, "second",    NULL};

const struct mb_kernel mb_chain = {
    .name = "chain",
    .keys = keys,
    .has_latency = true,
    .read = read,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .report = report,
    .persists = persists,
};

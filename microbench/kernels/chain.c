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
 * "mix": [{"share": 0.75, "steps": […]}, …] in place of "steps": each operation draws one of these
 * chains by its share (PerMA-Bench, section 4.4.2: inserts and displacements, 3:1). The facts
 * have the operations and the times of each.
 *
 * Where PerMA-Bench is otherwise: there a read of 1 KiB and more touches 512 bytes, and the
 * first read of a chain waits for nothing.
 */
#include "loops/chained.h"
#include "timer_overhead.h"

enum { MOST_STEPS = 64, MOST_CHAINS = 16, BATCH = 256 };

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
    bool writes;
    struct mb_counts each; /* what a chain moves */
    uint64_t drawn_below;  /* of a mix: the draws that choose it, or one before it */
};

/* What was done of a chain while all threads ran. */
struct done {
    uint64_t operations;
    struct tb_hdr latency;
};

struct chains {
    struct chain of[MOST_CHAINS];
    size_t count;
    bool dependent;
    enum mb_isa isa;
    struct mb_pattern pattern;
    struct mb_second second;
    struct mb_sampler sampler;
    pthread_mutex_t lock; /* of `done` */
    struct done done[MOST_CHAINS];
};

/* A thread's addresses of one chain. */
struct walk {
    struct mb_link links[MOST_STEPS];
    struct mb_cursor cursors[MOST_STEPS]; /* of reads */
    struct mb_span spans[MOST_STEPS];
    uint64_t used[MOST_STEPS]; /* of the span */
    struct done done;
};

struct thread_chains {
    uint64_t until_sample;
    struct walk walks[]; /* one a chain */
};

static const char *const persists_words[] = {"none", "cache", "cacheinv", "nocache", NULL};
static const enum mb_flush persist_flush[] = {
    [MB_CACHE] = MB_CLWB, [MB_CACHEINV] = MB_CLFLUSHOPT, [MB_NOCACHE] = MB_NO_FLUSH};

static bool read_step(const json_t *given, struct step *step, struct tb_error *error)
{
    static const char *const operations[] = {"read", "write", NULL};
    static const char *const places[] = {"first", "second", NULL};
    static const struct tb_param keys[] = {
        TB_WORD_KEY(struct step, "operation", write, operations, 0, -1),
        TB_WORD_KEY(struct step, "target", second, places, 0, 0),
        MB_BYTES_KEY(struct step, "bytes", bytes, TB_REQUIRED),
        TB_WORD_KEY(struct step, "persist", persist, persists_words, 0, MB_NONE),
        TB_INTEGER_KEY(struct step, "offset_bytes", offset_bytes, INT32_MIN, INT32_MAX, 0),
        {0},
    };
    if (!tb_params_read(keys, given, step, error))
        return false;
    if (step->offset_bytes % (int64_t)MB_LINE != 0)
        return tb_fail(error, "offset_bytes: must be a multiple of 64");
    if (!step->write && (step->offset_bytes != 0 || step->persist != MB_NONE))
        return tb_fail(error, "persist, offset_bytes: not for a read");
    return mb_flush_there("persist", persist_flush[step->persist], error);
}

static bool read_steps(const json_t *given_steps, struct chain *chain, struct tb_error *error)
{
    const json_t *given;
    size_t i;
    struct step *reader = NULL;
    int64_t at = 0;
    if (json_array_size(given_steps) == 0 || json_array_size(given_steps) > MOST_STEPS)
        return tb_fail(error, "steps: must be a list of 1 to %d", MOST_STEPS);
    json_array_foreach(given_steps, i, given) {
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

/* Shares need not add up to 1: 3 and 1 are three quarters and one. */
static bool read_mix(const json_t *mix, struct chains *chains, struct tb_error *error)
{
    const json_t *given;
    double shares[MOST_CHAINS], sum = 0, below = 0;
    size_t i;
    if (json_array_size(mix) == 0 || json_array_size(mix) > MOST_CHAINS)
        return tb_fail(error, "mix: must be a list of 1 to %d", MOST_CHAINS);
    json_array_foreach(mix, i, given) {
        shares[i] = json_number_value(json_object_get(given, "share"));
        if (!(shares[i] > 0))
            return tb_fail(error, "mix[%zu]: share: must be a number > 0", i);
        if (!read_steps(json_object_get(given, "steps"), &chains->of[i], error))
            return tb_fail_within(error, "mix[%zu]: ", i);
        sum += shares[i];
    }
    chains->count = json_array_size(mix);
    for (i = 0; i < chains->count; i++) {
        below += shares[i] / sum;
        chains->of[i].drawn_below = below < 1 ? (uint64_t)(below * 0x1p64) : UINT64_MAX;
    }
    chains->of[chains->count - 1].drawn_below = UINT64_MAX;
    return true;
}

static bool read_chains(const struct mb_job *job, struct chains *chains, struct tb_error *error)
{
    const json_t *mix = json_object_get(job->given, "mix");
    const json_t *steps = json_object_get(job->given, "steps");
    if (mix && steps)
        return tb_fail(error, "steps, mix: one of the two");
    if (mix)
        return read_mix(mix, chains, error);
    chains->count = 1;
    return read_steps(steps, &chains->of[0], error);
}

/* A read's part of the range: so that what follows it stays within, at multiples of its size. */
static void room_of(const struct step *step, uint64_t range, uint64_t *skip, uint64_t *room)
{
    *skip = (step->below + step->bytes - 1) / step->bytes * step->bytes;
    *room = range < *skip + step->above ? 0 : range - *skip - step->above;
}

static bool fits(const struct mb_job *job, const struct chains *chains, const struct chain *chain,
                 struct tb_error *error)
{
    uint64_t range = mb_part_bytes(job, job->range_bytes);
    uint64_t second = mb_part_bytes(job, chains->second.range_bytes);
    for (size_t i = 0; i < chain->count; i++) {
        const struct step *step = &chain->steps[i];
        uint64_t skip, room;
        if (step->second && !chains->second.target)
            return tb_fail(error, "steps[%zu]: \"target\": \"second\", and the job has no "
                                  "\"second\"", i);
        room_of(step, step->second ? second : range, &skip, &room);
        if (!step->write && room < step->bytes)
            return tb_fail(error, "steps[%zu]: with the writes after it, it needs %" PRIu64 " "
                                  "bytes; a partition has %" PRIu64, i,
                           skip + step->bytes + step->above, step->second ? second : range);
        if (!step->write && !mb_pattern_fits(job, &chains->pattern, step->bytes, room, error))
            return tb_fail_within(error, "steps[%zu]: ", i);
    }
    return true;
}

static bool all_fit(const struct mb_job *job, const struct chains *chains, struct tb_error *error)
{
    for (size_t c = 0; c < chains->count; c++)
        if (!fits(job, chains, &chains->of[c], error))
            return chains->count == 1 ? false : tb_fail_within(error, "mix[%zu]: ", c);
    return true;
}

static const struct tb_param params[] = {
    MB_ISA_KEY(struct chains, isa),
    MB_PATTERN_KEYS(struct chains, pattern, MB_RANDOM),
    MB_SAMPLER_KEY(struct chains, sampler),
    TB_OTHER_KEY("dependent"),
    TB_OTHER_KEY("steps"),
    TB_OTHER_KEY("mix"),
    TB_OTHER_KEY("second"),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct chains *chains = job->params;
    const json_t *dependent = json_object_get(job->given, "dependent");
    pthread_mutex_init(&chains->lock, NULL);
    if (!json_is_boolean(dependent))
        return tb_fail(error, "dependent: must be true (chains wait for each other: latency) or "
                              "false (they overlap: throughput)");
    chains->dependent = json_is_true(dependent);
    return read_chains(job, chains, error) && mb_isa_settle(&chains->isa, error) &&
           mb_pattern_settle(job, MB_LINE, &chains->pattern, error) &&
           mb_second_read(job, &chains->second, error) && all_fit(job, chains, error);
}

static void release(struct mb_job *job)
{
    struct chains *chains = job->params;
    for (size_t c = 0; c < MOST_CHAINS; c++)
        tb_hdr_free(&chains->done[c].latency);
    pthread_mutex_destroy(&chains->lock);
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct chains *chains = job->params;
    mb_sampler_prepare(&chains->sampler, chains->isa, job->base);
    return true;
}

static void begin_walk(struct mb_thread *thread, const struct chains *chains, size_t c,
                       struct walk *walk)
{
    const struct chain *chain = &chains->of[c];
    const struct mb_links *links = mb_links_of(chains->isa);
    tb_hdr_init(&walk->done.latency);
    for (size_t i = 0; i < chain->count; i++) {
        const struct step *step = &chain->steps[i];
        uint64_t range = thread->range_bytes, skip, room;
        char *base = thread->base;
        walk->links[i] = (struct mb_link){step->write ? links->write[step->persist] : links->read,
                                          step->bytes, step->offset_bytes, !step->write};
        if (step->write)
            continue;
        if (step->second)
            base = mb_second_part(thread, &chains->second, &range);
        room_of(step, range, &skip, &room);
        mb_cursor_init(&walk->cursors[i], thread, &chains->pattern, step->bytes, base + skip, room,
                       c * MOST_STEPS + i);
    }
}

static void begin(struct mb_thread *thread)
{
    struct chains *chains = thread->job->params;
    struct thread_chains *own;
    own = thread->own = tb_allocate(1, sizeof *own + chains->count * sizeof own->walks[0]);
    own->until_sample = (uint64_t)chains->sampler.every;
    for (size_t c = 0; c < chains->count; c++) {
        begin_walk(thread, chains, c, &own->walks[c]);
        if (thread->index == 0) { /* no thread of this repeat has ended yet */
            tb_hdr_free(&chains->done[c].latency);
            chains->done[c] = (struct done){.operations = 0};
            tb_hdr_init(&chains->done[c].latency);
        }
    }
}

/* Draws the addresses of the next chains' reads; returns their number, at most `wanted`. */
static uint64_t place(const struct chains *chains, struct thread_chains *own, uint64_t wanted)
{
    uint64_t ready = wanted;
    for (size_t c = 0; c < chains->count; c++) {
        struct walk *walk = &own->walks[c];
        for (size_t i = 0; i < chains->of[c].count; i++) {
            if (chains->of[c].steps[i].write)
                continue;
            if (walk->used[i] == walk->spans[i].count) {
                walk->spans[i] = mb_cursor_next(&walk->cursors[i], BATCH);
                walk->used[i] = 0;
            }
            if (walk->spans[i].count - walk->used[i] < ready)
                ready = walk->spans[i].count - walk->used[i];
        }
    }
    return ready;
}

/* value: what the read before brought, whose every bit decides where the next one goes. */
static inline uint64_t run_chain(const struct chain *chain, const struct walk *walk, uint64_t n,
                                 uint64_t value)
{
    char *at = NULL;
    for (size_t i = 0; i < chain->count; i++) {
        const struct mb_link *link = &walk->links[i];
        at = link->read ? mb_depend(mb_span_at(&walk->spans[i], walk->used[i] + n), value)
                        : at + link->offset_bytes;
        value = link->run(at, link->bytes, value);
    }
    return value;
}

static void run_timed(struct mb_thread *thread, const struct chain *chain, struct walk *walk,
                      uint64_t n)
{
    uint64_t from = mb_clock_begin();
    mb_used(run_chain(chain, walk, n, 0));
    uint64_t taken = mb_clock_end() - from;
    if (!thread->recording)
        return;
    tb_hdr_record(&thread->latency, mb_ns(taken), 1);
    tb_hdr_record(&walk->done.latency, mb_ns(taken), 1);
}

static inline size_t draw(struct mb_thread *thread, const struct chains *chains)
{
    uint64_t drawn = tb_random_next(&thread->random);
    size_t c = 0;
    while (drawn > chains->of[c].drawn_below)
        c++;
    return c;
}

static inline __attribute__((always_inline)) void run_batch(struct mb_thread *thread,
                                                            uint64_t operations, bool mixed)
{
    const struct chains *chains = thread->job->params;
    struct thread_chains *own = thread->own;
    uint64_t value = 0, taken[MOST_CHAINS] = {0};
    for (uint64_t n = 0; n < operations; n++) {
        size_t c = mixed ? draw(thread, chains) : 0;
        const struct chain *chain = &chains->of[c];
        struct walk *walk = &own->walks[c];
        uint64_t nth = taken[c]++;
        if (mb_sample_due(&chains->sampler, &own->until_sample)) {
            run_timed(thread, chain, walk, nth);
            continue;
        }
        value = run_chain(chain, walk, nth, chains->dependent ? value : 0);
        if (chains->dependent && chain->writes)
            mb_full_fence();
    }
    mb_used(value);
    for (size_t c = 0; c < chains->count; c++) {
        const struct chain *chain = &chains->of[c];
        struct walk *walk = &own->walks[c];
        for (size_t i = 0; i < chain->count; i++)
            walk->used[i] += taken[c];
        if (thread->recording)
            walk->done.operations += taken[c];
        thread->done.read_bytes += taken[c] * chain->each.read_bytes;
        thread->done.written_bytes += taken[c] * chain->each.written_bytes;
        thread->done.second_bytes += taken[c] * chain->each.second_bytes;
    }
    thread->done.operations += operations;
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct chains *chains = thread->job->params;
    for (uint64_t left = operations, batch; left > 0; left -= batch) {
        batch = place(chains, thread->own, left < BATCH ? left : BATCH);
        if (chains->count > 1)
            run_batch(thread, batch, true);
        else
            run_batch(thread, batch, false);
    }
}

static void end(struct mb_thread *thread)
{
    struct chains *chains = thread->job->params;
    struct thread_chains *own = thread->own;
    for (size_t c = 0; c < chains->count; c++) {
        struct done *done = &own->walks[c].done;
        pthread_mutex_lock(&chains->lock);
        chains->done[c].operations += done->operations;
        tb_hdr_add(&chains->done[c].latency, &done->latency);
        pthread_mutex_unlock(&chains->lock);
        tb_hdr_free(&done->latency);
        for (size_t i = 0; i < chains->of[c].count; i++)
            mb_cursor_free(&own->walks[c].cursors[i]);
    }
}

static json_t *done_facts(const struct done *done)
{
    char *text = done->latency.total ? tb_hdr_encode(&done->latency) : NULL;
    json_t *facts = json_pack("{s:o, s:s?}", "operations", tb_integer(done->operations),
                              "latency_hdr", text);
    free(text);
    return facts;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct chains *chains = job->params;
    json_object_set_new(facts, "isa", json_string(mb_isa_names[chains->isa]));
    json_object_set_new(facts, "chains",
                        json_string(chains->dependent ? "dependent: latency"
                                                      : "independent: throughput"));
    json_object_set_new(facts, "sample_every", json_integer(chains->sampler.every));
    mb_sampler_report(&chains->sampler, facts);
    if (!json_object_get(job->given, "mix"))
        return;
    json_t *mix = json_array();
    for (size_t c = 0; c < chains->count; c++)
        json_array_append_new(mix, done_facts(&chains->done[c]));
    json_object_set_new(facts, "mix", mix);
}

/* The weakest of its writes decides. */
static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct chains *chains = job->params;
    enum mb_chain_persist weakest = MB_NOCACHE;
    bool first = false, second = false;
    for (size_t c = 0; c < chains->count; c++)
        for (size_t i = 0; i < chains->of[c].count; i++) {
            const struct step *step = &chains->of[c].steps[i];
            if (step->write && step->persist < weakest)
                weakest = step->persist;
            first = first || (step->write && !step->second);
            second = second || (step->write && step->second);
        }
    *persist = (struct mb_persist){
        .non_temporal = weakest == MB_NOCACHE,
        .flush = persist_flush[weakest],
        .fence = weakest == MB_NONE ? MB_NO_FENCE : MB_SFENCE,
        .second = second ? chains->second.target : NULL,
        .second_alone = !first,
    };
    return first || second;
}

const struct mb_kernel mb_chain = {
    .name = "chain",
    .params = params,
    .params_bytes = sizeof(struct chains),
    .has_latency = true,
    .validate = validate,
    .release = release,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .report = report,
    .persists = persists,
};

/*
 * A buffer manager's page flush (DaMoN'19, section 3.2 and Figure 5): pages go from DRAM to
 * durable memory, each so that a crash leaves its old content or its new one.
 *
 *   {"name": "evict", "kind": "page", "target": "t0", "threads": 1, "method": "hybrid",
 *    "page_bytes": 16384, "dirty_lines": 32, "flush": "ntstore", "sample_every": 0}
 *
 * Methods: cow, cow_dirty, cow_invalidate, mulog (page_flush.h), and hybrid, which takes mulog for pages with
 * few dirty lines and cow for the others. Its cost model is two straight lines, measured by each
 * thread while it warms up next to the others: cow costs the same whatever is dirty, mulog costs
 * a + b · lines. Where they cross is among the facts (`hybrid_below_lines`, mean of the threads).
 * Without a warm-up the first flushes are the measurement.
 *
 * Each thread has a store of its own, an equal part of its partition, and flushes its pages in
 * random order. Which lines are dirty is drawn beforehand. Bytes are those that a method moves:
 * twice the dirty lines for mulog. After every repeat the stores are recovered as after a
 * restart: every page must be there in the version flushed last.
 */
#include "durable_job.h"
#include "page_flush.h"

enum { DRAWS = 64, DRAM_BYTES = 64 * 1024 * 1024, TRIALS = 192, HYBRID = MB_PAGE_ULOG + 1 };

struct paged {
    struct mb_durable durable;
    int method;
    uint64_t page_bytes;
    int64_t dirty_lines;
    size_t store_bytes; /* of one thread */
    uint32_t pages;
    struct mb_page_store *stores; /* by thread, from begin to check */
    double *crossing;             /* by thread: dirty lines below which mulog is cheaper */
};

struct flusher {
    struct mb_page_store *store;
    char *dram; /* dram_pages, random content */
    uint32_t dram_pages;
    struct mb_dirty *dirty; /* DRAWS of them */
    uint64_t until_sample, flushed;
    double crossing;
    /* Trials of the hybrid: cow, mulog with few lines, mulog with half of them. */
    uint64_t trial;
    uint64_t cycles[3][TRIALS / 3];
    struct mb_dirty *few, *half;
};

static const char *const methods[] = {"cow",   "cow_dirty", "cow_invalidate",
                                      "mulog", "hybrid",    NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct paged, "method", method, methods, 0, -1),
    MB_BYTES_KEY(struct paged, "page_bytes", page_bytes, TB_REQUIRED),
    TB_INTEGER_KEY(struct paged, "dirty_lines", dirty_lines, 1, MB_PAGE_LINES_MOST, TB_REQUIRED),
    MB_DURABLE_KEYS(struct paged, durable, MB_MEDIUM_NTSTORE),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct paged *paged = job->params;
    int64_t lines = (int64_t)(paged->page_bytes / MB_LINE);
    paged->store_bytes = mb_thread_bytes(job);
    paged->pages = mb_pages_fit(paged->store_bytes, paged->page_bytes);
    paged->stores = tb_allocate(job->threads, sizeof *paged->stores);
    paged->crossing = tb_allocate(job->threads, sizeof *paged->crossing);
    if (lines > MB_PAGE_LINES_MOST)
        return tb_fail(error, "page_bytes: must be <= %d", MB_PAGE_LINES_MOST * 64);
    if (paged->dirty_lines > lines)
        return tb_fail(error, "dirty_lines: must be <= %" PRId64 ", the lines of a page", lines);
    if (paged->pages == 0)
        return tb_fail(error, "range_bytes: each thread has %zu bytes; a page, its log and a "
                              "spare slot need %zu", paged->store_bytes,
                       mb_pages_bytes(1, paged->page_bytes));
    return mb_durable_fits(job, error);
}

static void release(struct mb_job *job)
{
    struct paged *paged = job->params;
    for (uint32_t i = 0; paged->stores && i < job->threads; i++)
        mb_pages_close(&paged->stores[i]);
    free(paged->stores);
    free(paged->crossing);
}

static void draw_dirty(struct mb_dirty *dirty, uint32_t lines, uint32_t count,
                       struct tb_random *random)
{
    uint32_t left = count;
    *dirty = (struct mb_dirty){.count = count};
    for (uint32_t line = 0, taken = 0; left > 0; line++) {
        /* The next line is among the chosen with the share of those still to be chosen. */
        if ((uint32_t)tb_random_between(random, 0, lines - line - 1) >= left)
            continue;
        dirty->lines[taken++] = (uint16_t)line;
        dirty->bits[line / 64] |= UINT64_C(1) << line % 64;
        left--;
    }
}

static void begin(struct mb_thread *thread)
{
    const struct paged *paged = thread->job->params;
    struct flusher *flusher = thread->own = tb_allocate(1, sizeof *flusher);
    uint32_t lines = (uint32_t)(paged->page_bytes / MB_LINE);
    size_t most = DRAM_BYTES / paged->page_bytes;
    flusher->store = &paged->stores[thread->index];
    mb_pages_close(flusher->store);
    mb_pages_open(flusher->store, mb_thread_base(thread->job, thread->index), paged->pages,
                  paged->page_bytes);
    flusher->dram_pages = paged->pages < most ? paged->pages : (uint32_t)most;
    flusher->dram = mb_random_bytes(thread, flusher->dram_pages * paged->page_bytes);
    flusher->dirty = tb_allocate(DRAWS + 2, sizeof *flusher->dirty);
    for (int i = 0; i < DRAWS; i++)
        draw_dirty(&flusher->dirty[i], lines, (uint32_t)paged->dirty_lines, &thread->random);
    flusher->few = &flusher->dirty[DRAWS];
    flusher->half = flusher->few + 1;
    draw_dirty(flusher->few, lines, lines > 8 ? 4 : 1, &thread->random);
    draw_dirty(flusher->half, lines, (lines + 1) / 2, &thread->random);
    flusher->until_sample = (uint64_t)paged->durable.sampler.every;
}

MB_ALWAYS_INLINE void flush_one(struct mb_thread *thread, const struct mb_medium *medium,
                                enum mb_page_method method, const struct mb_dirty *dirty)
{
    struct flusher *flusher = thread->own;
    uint64_t drawn = tb_random_next(&thread->random) >> 32;
    uint32_t page = (uint32_t)((drawn * flusher->store->pages) >> 32);
    const char *from = flusher->dram + page % flusher->dram_pages * flusher->store->page_bytes;
    mb_page_flush(flusher->store, medium, method, page, from, dirty);
    uint64_t changed = dirty->count * MB_LINE, whole = flusher->store->page_bytes;
    thread->done.written_bytes += method == MB_PAGE_ULOG ? 2 * changed : whole;
    thread->done.read_bytes += method == MB_PAGE_COW_DIRTY ? whole - changed : 0;
}

/* Where the line of mulog, through the medians of two trials, reaches the cost of cow. */
static double crossing_of(struct flusher *flusher, double lines)
{
    double median[3];
    for (int i = 0; i < 3; i++) {
        qsort(flusher->cycles[i], TRIALS / 3, sizeof(uint64_t), mb_by_cycles);
        median[i] = (double)flusher->cycles[i][TRIALS / 6];
    }
    double apart = (double)flusher->half->count - flusher->few->count;
    double a_line = apart > 0 ? (median[2] - median[1]) / apart : 0;
    double crossing = lines + 1;
    if (a_line > 0)
        crossing = flusher->few->count + (median[0] - median[1]) / a_line;
    return crossing < 0 ? 0 : crossing > lines + 1 ? lines + 1 : crossing;
}

/* One of the three trials in turn; after the last one the two lines are known. */
MB_ALWAYS_INLINE void try_one(struct mb_thread *thread, const struct mb_medium *medium)
{
    const struct paged *paged = thread->job->params;
    struct flusher *flusher = thread->own;
    uint64_t which = flusher->trial % 3;
    uint64_t from = mb_clock_begin();
    flush_one(thread, medium, which == 0 ? MB_PAGE_COW : MB_PAGE_ULOG,
              which == 2 ? flusher->half : flusher->few);
    flusher->cycles[which][flusher->trial++ / 3] = mb_clock_end() - from;
    if (flusher->trial == TRIALS)
        paged->crossing[thread->index] = flusher->crossing =
            crossing_of(flusher, (double)(paged->page_bytes / MB_LINE));
}

MB_ALWAYS_INLINE void flush_do(struct mb_thread *thread, const struct mb_medium *medium,
                               uint64_t flushes)
{
    const struct paged *paged = thread->job->params;
    struct flusher *flusher = thread->own;
    for (uint64_t i = 0; i < flushes; i++) {
        const struct mb_dirty *dirty = &flusher->dirty[flusher->flushed++ % DRAWS];
        enum mb_page_method method = (enum mb_page_method)paged->method;
        if (paged->method == HYBRID) {
            if (flusher->trial < TRIALS) {
                try_one(thread, medium);
                continue;
            }
            method = dirty->count < flusher->crossing ? MB_PAGE_ULOG : MB_PAGE_COW;
        }
        bool timed = mb_sample_due(&paged->durable.sampler, &flusher->until_sample);
        uint64_t from = timed ? mb_clock_begin() : 0;
        flush_one(thread, medium, method, dirty);
        if (timed)
            mb_sample_end(thread, from);
    }
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct paged *paged = thread->job->params;
    MB_WITH_MEDIUM(paged->durable.flush, flush_do, thread, operations);
    thread->done.operations += operations;
}

static void end(struct mb_thread *thread)
{
    struct flusher *flusher = thread->own;
    free(flusher->dirty);
    free(flusher->dram);
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    const struct paged *paged = job->params;
    for (uint32_t i = 0; i < job->threads; i++) {
        const struct mb_page_store *store = &paged->stores[i];
        struct mb_page_store found;
        bool same = mb_pages_recover(&found, store->base, store->pages, store->page_bytes);
        for (uint32_t page = 0; same && page < store->pages; page++)
            same = found.slot_of[page] == store->slot_of[page] &&
                   found.version_of[page] == store->version_of[page];
        mb_pages_close(&found);
        if (same)
            continue;
        return tb_fail(error, "recovery does not find the pages that thread %" PRIu32 " flushed "
                              "last", i);
    }
    return true;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct paged *paged = job->params;
    double sum = 0;
    for (uint32_t i = 0; i < job->threads; i++)
        sum += paged->crossing[i];
    mb_durable_report(job, facts);
    json_object_set_new(facts, "pages_a_thread", json_integer(paged->pages));
    if (paged->method == HYBRID)
        json_object_set_new(facts, "hybrid_below_lines", json_real(sum / job->threads));
}

const struct mb_kernel mb_page = {
    .name = "page",
    .params = params,
    .params_bytes = sizeof(struct paged),
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

/*
 * Reading everything back. The table is gone through once, in pages, in as many ranges of keys as
 * keep all threads busy. Whether every record that belongs there was among them is known without
 * remembering any: the number of keys and the sum of their hashes must be those of the keys that
 * were written. Only where they are not, each record is read by its key, to say which are missing.
 * Of each field that an update wrote last it is noted that it was (values.h), to be compared with
 * the updates that were acknowledged.
 */
#include "ycsb.h"

#include "../thread_pool.h"

enum { PAGE_RECORDS = 1000, CHUNK_KEYS = 1000, SUM_CHUNK_KEYS = 100000, RANGES_A_THREAD = 8 };

struct key {
    size_t length;
    char text[YCSB_KEY_BYTES];
};

/* Keys and the sum of their hashes. */
struct set {
    int64_t count;
    uint64_t sum;
};

struct verify {
    struct lg_ycsb_params params;
    struct lg_ycsb_values values;
    struct lg_statements statements;
    int64_t expected, extra; /* records that must, and that may be there after them */
    struct key *bounds;      /* between ranges, in their order */
    int64_t ranges, extra_chunks, sum_chunks, chunks;

    /* With the pool's lock. */
    struct set found, wanted, extras;
    int64_t missing, malformed, changed;
    struct lg_ycsb_updated updated;
    char first[512]; /* that is not as it should be */
};

/* The rows of one statement. */
struct page {
    struct verify *verify;
    const struct key *end; /* NULL: the table's */
    struct key from, last;
    bool begun;            /* a row has been seen in this range */
    bool behind_end;
    size_t rows;
    struct set found;
    int64_t malformed;
    struct lg_ycsb_seen seen; /* the thread's: an undone attempt adds nothing that was not there */
    char first[512];
    const char *wrong;     /* the engine does not do what was requested */
};

static int compare(const char *a, size_t a_length, const struct key *b)
{
    return lg_ycsb_compare(a, a_length, b->text, b->length);
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *one = a;

    return compare(one->text, one->length, b);
}

static void check_fields(struct page *page, const struct key *key, uint64_t hash,
                         const struct lg_cell *fields, size_t count)
{
    const char *wrong = lg_ycsb_check(&page->verify->values, hash, fields, count, -1, &page->seen);

    if (wrong && page->malformed++ == 0)
        snprintf(page->first, sizeof page->first, "record %.*s: %s", (int)key->length, key->text,
                 wrong);
}

/* A row of a scan. */
static void scan_row(void *context, const struct lg_cell *cells, size_t columns)
{
    struct page *page = context;
    size_t length = columns ? cells[0].length : 0;
    uint64_t hash;

    page->rows++;
    if (page->wrong || page->behind_end)
        return;
    if (length == 0 || length >= YCSB_KEY_BYTES) {
        page->wrong = "a row of the scan does not begin with a key";
        return;
    }
    if (page->end && compare(cells[0].text, length, page->end) >= 0) {
        page->behind_end = true;
        return;
    }
    if (page->begun && compare(cells[0].text, length, &page->last) == 0 && page->rows == 1)
        return; /* the last one of the page before */
    if ((page->begun ? compare(cells[0].text, length, &page->last) <= 0
                     : compare(cells[0].text, length, &page->from) < 0)) {
        page->wrong = "the scan's keys do not ascend in the order of their bytes";
        return;
    }
    page->begun = true;
    page->last.length = length;
    memcpy(page->last.text, cells[0].text, length);
    hash = lg_ycsb_key_hash(&page->verify->values, cells[0].text, length);
    page->found.count++;
    page->found.sum += hash;
    check_fields(page, &page->last, hash, cells + 1, columns - 1);
}

static void keep_first(struct verify *verify, const char *words)
{
    if (verify->first[0] == '\0')
        snprintf(verify->first, sizeof verify->first, "%s", words);
}

static void add_set(struct set *to, const struct set *set)
{
    to->count += set->count;
    to->sum += set->sum;
}

static struct lg_ycsb_seen seen_by(struct lg_pool_thread *thread)
{
    if (!thread->own)
        thread->own = tb_allocate(1, sizeof(struct lg_ycsb_updated));
    return (struct lg_ycsb_seen){.updated = thread->own};
}

/* What a page has found counts, now that it is whole; `absent` names the first missing one. */
static void keep_page(struct lg_thread_pool *pool, const struct page *page, struct set *into,
                      int64_t missing, const char *absent)
{
    struct verify *verify = page->verify;

    pthread_mutex_lock(&pool->lock);
    add_set(into, &page->found);
    verify->missing += missing;
    verify->malformed += page->malformed;
    verify->changed += page->seen.count;
    lg_ycsb_updated_merge(&verify->updated, page->seen.updated);
    if (page->malformed)
        keep_first(verify, page->first);
    if (missing)
        keep_first(verify, absent);
    pthread_mutex_unlock(&pool->lock);
}

/* Executes the statement with the key `page->from`; its rows go to the page. */
static bool read_rows(struct lg_pool_thread *thread, enum lg_ycsb_operation operation,
                      void (*row)(void *, const struct lg_cell *, size_t), struct page *page,
                      struct tb_error *error)
{
    const struct lg_statements *statements = &page->verify->statements;
    const struct lg_value values[LG_MAX_VALUES] = {
        [YCSB_KEY] = {.kind = LG_TEXT, .text = page->from.text, .length = page->from.length},
        [YCSB_LENGTH] = {.kind = LG_INT, .integer = PAGE_RECORDS + 1},
    };
    struct page attempt;
    const struct lg_reader reader = {row, &attempt};
    const struct lg_result *result;

    do { /* an attempt that was undone has shown some rows */
        attempt = *page;
        result = lg_pool_execute(thread, &statements->all[statements->of[operation].first],
                                 values, &reader, error);
    } while (result && result->outcome == LG_RETRY);
    if (result)
        *page = attempt;
    return result != NULL;
}

static bool scan_range(struct lg_pool_thread *thread, int64_t range, struct tb_error *error)
{
    struct verify *verify = thread->pool->context;
    struct page page = {.verify = verify, .seen = seen_by(thread)};

    if (range > 0)
        page.from = verify->bounds[range - 1];
    if (range < verify->ranges - 1)
        page.end = &verify->bounds[range];
    for (;;) {
        page.rows = 0;
        page.found = (struct set){0};
        page.malformed = page.seen.count = 0;
        if (!read_rows(thread, YCSB_SCAN, scan_row, &page, error))
            return false;
        if (page.wrong)
            return tb_fail(error, "scan from %.*s: %s", (int)page.from.length, page.from.text,
                           page.wrong);
        keep_page(thread->pool, &page, &verify->found, 0, NULL);
        lg_pool_count(thread->pool, 0, page.found.count);
        if (page.behind_end || page.rows < PAGE_RECORDS + 1)
            return true;
        page.from = page.last;
    }
}

/* The number of the n-th record that must (or, after these, may) be there. */
static int64_t number_of(const struct verify *verify, int64_t n)
{
    const struct lg_ycsb_params *params = &verify->params;

    return n < params->insertcount ? params->insertstart + n
                                   : params->recordcount + n - params->insertcount;
}

static void sum_keys(struct lg_thread_pool *pool, int64_t first, int64_t end)
{
    struct verify *verify = pool->context;
    struct set keys = {.count = end - first};
    char key[YCSB_KEY_BYTES];

    for (int64_t n = first; n < end; n++) {
        size_t length = lg_ycsb_key(&verify->params, number_of(verify, n), key);

        keys.sum += lg_ycsb_key_hash(&verify->values, key, length);
    }
    pthread_mutex_lock(&pool->lock);
    add_set(&verify->wanted, &keys);
    pthread_mutex_unlock(&pool->lock);
}

/* A row of a read: its fields were checked by the scan. */
static void read_row(void *context, const struct lg_cell *cells, size_t columns)
{
    struct page *page = context;
    uint64_t hash = lg_ycsb_key_hash(&page->verify->values, page->from.text, page->from.length);

    page->rows++;
    page->found.count++;
    page->found.sum += hash;
}

/* Asks for records by their keys; `into` takes those that are there. */
static bool read_keys(struct lg_pool_thread *thread, int64_t first, int64_t end, bool must,
                      struct set *into, struct tb_error *error)
{
    struct verify *verify = thread->pool->context;
    struct page page = {.verify = verify, .seen = seen_by(thread)};
    char absent[YCSB_KEY_BYTES + 64] = "";
    int64_t missing = 0;

    for (int64_t n = first; n < end; n++) {
        page.rows = 0;
        page.from.length = lg_ycsb_key(&verify->params, number_of(verify, n), page.from.text);
        if (!read_rows(thread, YCSB_READ, read_row, &page, error))
            return false;
        if (page.rows == 0 && must && missing++ == 0)
            snprintf(absent, sizeof absent, "record %.*s is not there", (int)page.from.length,
                     page.from.text);
    }
    keep_page(thread->pool, &page, into, missing, absent);
    return true;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ranges to be scanned, then chunks of what may be there, then chunks of sums. */
static bool scan_package(struct lg_pool_thread *thread, int64_t package, struct tb_error *error)
{
    struct verify *verify = thread->pool->context;
    int64_t chunk = package - verify->ranges;

    if (chunk < 0)
        return scan_range(thread, package, error);
    if (chunk < verify->extra_chunks) {
        int64_t first = verify->expected + chunk * CHUNK_KEYS;

        return read_keys(thread, first,
                         smaller(first + CHUNK_KEYS, verify->expected + verify->extra), false,
                         &verify->extras, error);
    }
    chunk -= verify->extra_chunks;
    sum_keys(thread->pool, chunk * SUM_CHUNK_KEYS,
             smaller((chunk + 1) * SUM_CHUNK_KEYS, verify->expected));
    return true;
}

static bool key_package(struct lg_pool_thread *thread, int64_t package, struct tb_error *error)
{
    struct verify *verify = thread->pool->context;

    return read_keys(thread, package * CHUNK_KEYS,
                     smaller((package + 1) * CHUNK_KEYS, verify->expected), true,
                     &verify->wanted, error);
}

static int64_t chunks_of(int64_t of, int64_t size)
{
    return (of + size - 1) / size;
}

/* Keys of some records, sorted, cut the table into ranges of about the same size. */
static void set_bounds(struct verify *verify, uint32_t threads)
{
    verify->ranges = smaller((int64_t)threads * RANGES_A_THREAD, verify->expected);
    verify->bounds = tb_allocate((size_t)verify->ranges, sizeof *verify->bounds);
    for (int64_t i = 0; i < verify->ranges - 1; i++) {
        int64_t n = verify->expected / verify->ranges * (i + 1);
        struct key *bound = &verify->bounds[i];

        bound->length = lg_ycsb_key(&verify->params, number_of(verify, n), bound->text);
    }
    qsort(verify->bounds, (size_t)verify->ranges - 1, sizeof *verify->bounds, compare_keys);
}

static bool open_verify(struct verify *verify, const struct lg_job *job, struct tb_error *error)
{
    const struct lg_spec *spec = job->spec;
    const size_t wanted[LG_MAX_OPERATIONS] = {[YCSB_READ] = 1, [YCSB_SCAN] = 1};

    if (!lg_ycsb_params_read(&verify->params, spec->params, error) ||
        !lg_statements_read(&verify->statements, spec->statements, &lg_ycsb, wanted, error))
        return false;
    lg_ycsb_values_open(&verify->values, &verify->params);
    verify->values.key_value = job->backend->key_value;
    verify->expected = verify->params.insertcount + verify->params.inserted;
    verify->extra = verify->params.inserts_begun - verify->params.inserted;
    verify->extra_chunks = chunks_of(verify->extra, CHUNK_KEYS);
    verify->sum_chunks = chunks_of(verify->expected, SUM_CHUNK_KEYS);
    verify->chunks = chunks_of(verify->expected, CHUNK_KEYS);
    set_bounds(verify, spec->threads);
    return true;
}

static bool run_pool(struct verify *verify, const struct lg_job *job,
                     bool (*work)(struct lg_pool_thread *, int64_t, struct tb_error *),
                     int64_t packages, struct tb_error *error)
{
    struct lg_thread_pool pool = {.job = job, .statements = &verify->statements, .packages = packages,
                           .work = work, .context = verify, .event = "verifying",
                           .names = {"records"}};

    return lg_pool_run(&pool, error);
}

static bool read_back(struct verify *verify, const struct lg_job *job, struct tb_error *error)
{
    if (!run_pool(verify, job, scan_package,
                  verify->ranges + verify->extra_chunks + verify->sum_chunks, error))
        return false;
    /* All keys that must be there, those that may and are, and no other one. */
    if (verify->found.count == verify->wanted.count + verify->extras.count &&
        verify->found.sum == verify->wanted.sum + verify->extras.sum)
        return true;
    verify->wanted = (struct set){0};
    return run_pool(verify, job, key_package, verify->chunks, error);
}

bool lg_ycsb_verify(const struct lg_job *job, json_t *result, struct tb_error *error)
{
    struct verify *verify = tb_allocate(1, sizeof *verify);
    bool done = open_verify(verify, job, error) && read_back(verify, job, error);

    if (done) {
        int64_t known = verify->wanted.count + verify->extras.count;
        int64_t unexpected = verify->found.count - known;

        if (unexpected > 0)
            keep_first(verify, "there are records under keys that were never written");
        json_object_set_new(
            result, "verified",
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s?}", "records",
                      (json_int_t)verify->found.count, "expected", (json_int_t)verify->expected,
                      "missing", (json_int_t)verify->missing, "malformed",
                      (json_int_t)verify->malformed, "unexpected",
                      (json_int_t)(unexpected > 0 ? unexpected : 0), "changed",
                      (json_int_t)verify->changed, "updated",
                      lg_ycsb_updated_json(&verify->updated), "first",
                      verify->first[0] ? verify->first : NULL));
    }
    lg_statements_free(&verify->statements);
    free(verify->bounds);
    free(verify);
    return done;
}

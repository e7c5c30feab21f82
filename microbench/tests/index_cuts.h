/*
 * An index under power cuts: included by the test of each index, before the index itself.
 *
 * A history of inserts, updates and removals is cut at every store, flush and fence; the memories
 * that each cut may leave are recovered: all of them where they are few, otherwise some, drawn.
 * Every change that was acknowledged must be there, and the one under way wholly or not at all.
 * One memory of each cut is cut again, in its recovery or in the changes that follow it, several
 * times where recovery changes something.
 *
 * Where a flush or fence of the index is left out, at one place of its source, that must be found.
 * `--search DISCIPLINE [MEMORIES]` looks for the places that may all be left out: index_search.h.
 * `ff` and `sff` have more of them than the index needs: left out are, with `ff`, the fences
 * after which the index has one of its own; with `sff` only those of a commit (mb_commit), but for
 * the function whose commit the stores next to it make unnecessary there.
 */
#pragma once

#include "check.h"
#include "cut.h"
#include "../indexes/policy.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* Where in the source the index is: a change of it knows its flushes and fences by the line. */
struct place {
    const char *file;
    int line; /* 0: none */
    const char *function;
    bool commits, extra; /* extra: consistency does not depend on it */
};
static struct place here, last_flush;
static void before_fence(const struct mb_policy *policy);
#define AT_PLACE(...) (here = (struct place){__FILE__, __LINE__, __func__, __VA_ARGS__})
#define AT(commits_) AT_PLACE(commits_, false)
#define AT_EXTRA AT_PLACE(false, true)
#define mb_put(policy, to, value) (AT_EXTRA, mb_put(policy, to, value))
#define mb_flush(policy, at) (AT(false), mb_flush(policy, at))
#define mb_flush_all(policy, at, bytes) (AT(false), mb_flush_all(policy, at, bytes))
#define mb_fence(policy) (before_fence(policy), AT(false), mb_fence(policy))
#define mb_commit(policy, to, value) (AT(true), mb_commit(policy, to, value))
#define mb_flush_extra(policy, at) (AT_EXTRA, mb_flush_extra(policy, at))
#define mb_fence_extra(policy) (AT_EXTRA, mb_fence_extra(policy))
#define mb_commit_extra(policy, to, value) (AT_EXTRA, mb_commit_extra(policy, to, value))

#include "../indexes/index.h"

#ifndef CUT_CHUNK
#define CUT_CHUNK 1024
#endif
enum { KEYS = 96, FIRST_KEYS = KEYS / 3, CHANGES = 150, SITES_MOST = 256, MORE = 24, STUCK_S = 10,
       SEEDS = 8, ALL_OF = 64 /* memories of a cut */, SECOND_CUTS = 8 };
/* Where a hash index looks in small levels: keys that agree there fill them early. */
#define COLLIDING UINT64_C(0x0000000700000007)

static struct {
    const struct mb_index_kind *kind;
    enum mb_discipline discipline;
    uint64_t seed, first_value;
    uint64_t values[KEYS]; /* acknowledged; 0: not there */
    volatile bool under_way;
    volatile size_t key; /* of the change under way */
    volatile uint64_t new_value;
} history, saved;

static struct site {
    struct place at;
    bool fence, left_out, redundant;
    uint64_t executed, idle; /* while nothing is left out; idle: with nothing to order */
} sites[SITES_MOST];
static size_t site_count, left_out; /* left_out: of them */
static bool searching, idle; /* idle: neither stored nor flushed since the last fence */
static const char *sff_repeats = ""; /* the function of such a commit */
static uint64_t keys[KEYS + MORE];
static struct seen {
    uint64_t states, cuts, sampled; /* sampled: cuts of which not every memory was seen */
} *seen; /* by child processes, too */
static char left[CUT_BYTES], stale[CUT_BYTES]; /* of another one, that lay there before */

static struct site *site_at(struct place at, bool fence)
{
    for (size_t i = 0; i < site_count; i++)
        if (sites[i].at.line == at.line && sites[i].fence == fence &&
            strcmp(sites[i].at.file, at.file) == 0)
            return &sites[i];
    return NULL;
}

static struct site *add_site(struct place at, bool fence)
{
    assert(site_count < SITES_MOST);
    sites[site_count] = (struct site){.at = at, .fence = fence};
    return &sites[site_count++];
}

/* One of those that are to be left out in their turn. */
static void collect(struct place at, bool fence)
{
    if (left_out || searching || !at.line || at.extra)
        return;
    bool repeats = history.discipline == MB_SFF && strcmp(at.function, sff_repeats) == 0;
    if (!repeats && !site_at(at, fence))
        add_site(at, fence);
}

/* Also counts it, for a search. */
static bool is_left_out(bool fence)
{
    struct site *site = left_out || searching ? site_at(here, fence) : NULL;
    if (searching && !left_out) {
        site = site ? site : add_site(here, fence);
        site->executed++;
        site->idle += fence && idle;
    }
    return site && site->left_out;
}

static void before_fence(const struct mb_policy *policy)
{
    if (policy->discipline == MB_FF)
        collect(last_flush, true);
}

static void watched_write(void *to, const void *from, size_t bytes)
{
    idle = false;
    cut_write(to, from, bytes);
}

static void watched_flush(const void *at, size_t bytes)
{
    last_flush = here;
    collect(here, false);
    if (is_left_out(false))
        return;
    idle = false;
    cut_flush(at, bytes);
}

static void watched_fence(void)
{
    if (history.discipline != MB_FF || here.commits)
        collect(here, true);
    if (is_left_out(true))
        return;
    idle = true;
    cut_fence();
}

static const struct mb_medium watched = {"watched", watched_write, watched_flush,
                                         watched_fence};

/* Neighbours, so that nodes fill, or those that collide; and keys that have nothing in common. */
static void choose_keys(uint64_t (*hash)(uint64_t key))
{
    struct tb_random random;
    uint64_t next = KEYS;
    tb_random_seed(&random, 9, 0);
    for (size_t i = 0; i < KEYS + MORE; i++) {
        if (hash && i < FIRST_KEYS) {
            while (hash(++next) & COLLIDING)
                ;
            keys[i] = next;
        } else {
            keys[i] = i < 2 * FIRST_KEYS ? i + 1 : tb_random_next(&random) % MB_KEY_MOST + 1;
        }
    }
}

/* The first one comes and goes, as the only one; then the others of the first keys come. */
static void change(struct mb_index *index, struct tb_random *random, uint64_t number)
{
    uint64_t draw = tb_random_next(random);
    history.key = number <= FIRST_KEYS ? (number ? number - 1 : 0) : draw % KEYS;
    uint64_t key = keys[history.key], done = history.values[history.key];
    bool removes = done && (number == 1 || draw >> 32 & 1), there;
    history.new_value = removes ? 0 : history.first_value + number;
    history.under_way = true;
    if (removes)
        there = history.kind->remove(index, key);
    else if (done)
        there = history.kind->update(index, key, history.new_value);
    else
        there = history.kind->insert(index, key, history.new_value);
    CHECK_CASE(there, number);
    history.values[history.key] = history.new_value;
    history.under_way = false;
}

/* Under the history's discipline; cut. */
static struct mb_index seen_index(void)
{
    static struct mb_policy policy;
    policy = (struct mb_policy){.discipline = history.discipline, .medium = &watched};
    idle = false;
    return (struct mb_index){.arena = {.base = cut.seen,
                                       .size_bytes = CUT_BYTES, .chunk_bytes = CUT_CHUNK},
                             .policy = &policy};
}

/* Until the cut, or to the end: then its steps. */
static uint64_t run_history(uint64_t stop_at)
{
    static struct mb_index index;
    struct tb_random random;
    index = seen_index();
    cut_reset(false);
    memcpy(cut.seen, stale, CUT_BYTES);
    memcpy(cut.durable, stale, CUT_BYTES);
    CHECK(history.kind->open(&index));
    cut.step = 0;
    memset(history.values, 0, sizeof history.values);
    history.under_way = false;
    tb_random_seed(&random, history.seed, 0);
    cut.stop_at = stop_at;
    if (setjmp(cut.stopped) == 0)
        for (uint64_t i = 0; i < CHANGES; i++)
            change(&index, &random, i);
    return cut.step;
}

static bool has_all(const struct mb_index *index)
{
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t value = 0;
        bool there = history.kind->read(index, keys[i], &value);
        bool is_new = history.under_way && i == history.key;
        if (there == (value == 0))
            return false;
        if (value != history.values[i] && !(is_new && value == history.new_value))
            return false;
    }
    return true;
}

/* Is everything there that must be, and stays when more comes? `image` is recovered in place. */
static bool is_right(char *image)
{
    static const struct mb_policy plain = {.discipline = MB_DESIGNED};
    struct mb_index index = {.arena = {.base = image,
                                       .size_bytes = CUT_BYTES, .chunk_bytes = CUT_CHUNK},
                             .policy = &plain};
    seen->states++;
    if (left_out)
        alarm(STUCK_S);
    if (!history.kind->recover(&index) || !has_all(&index))
        return false;
    for (size_t i = KEYS; i < KEYS + MORE; i++)
        if (!history.kind->insert(&index, keys[i], i))
            return false;
    return has_all(&index);
}

/* What was under way has been done, or not. */
static void settle(const struct mb_index *index)
{
    if (history.under_way) {
        uint64_t value = 0;
        history.kind->read(index, keys[history.key], &value);
        history.values[history.key] = value;
    }
    history.under_way = false;
}

/* Cut again, in its recovery or in further changes. `again`: whether recovery changes something. */
static bool is_right_after_two(struct tb_random *random, bool *again)
{
    enum { FURTHER = 60 };
    static struct mb_index index;
    static char image[CUT_BYTES];
    index = seen_index();
    saved = history;
    *again = true;
    memcpy(cut.seen, left, CUT_BYTES);
    cut_settle();
    cut.stop_at = (uint64_t)tb_random_between(random, 1, 4 * FURTHER);
    if (setjmp(cut.stopped) == 0) {
        CHECK(history.kind->recover(&index));
        *again = cut.step > 0;
        settle(&index);
        for (uint64_t i = 0; i < FURTHER; i++)
            change(&index, random, CHANGES + i);
    }
    cut_image(image, random, 2);
    bool right = is_right(image);
    history = saved;
    return right;
}

/* Another index of the same keys was there before: what is not written shows. */
static void leave_stale(void)
{
    memset(stale, 0xa5, CUT_BYTES);
    history.first_value = 1000000;
    history.seed += 1000;
    run_history(0);
    history.seed -= 1000;
    memcpy(stale, cut.seen, CUT_BYTES);
    history.first_value = 1;
}

static bool is_right_after_cut(struct tb_random *random, uint64_t draws)
{
    uint64_t images = cut_images(ALL_OF);
    seen->cuts++;
    seen->sampled += !images;
    for (uint64_t i = 0; i < (images ? images : draws); i++) {
        if (images)
            cut_image_of(left, i);
        else
            cut_image(left, random, i);
        if (!is_right(left))
            return false;
    }
    cut_image(left, random, 2);
    bool right = true, again = true;
    for (int i = 0; right && again && i < SECOND_CUTS; i++)
        right = is_right_after_two(random, &again);
    return right;
}

/* Cuts at every step; stops at the first memory that is not right. */
static bool survives(uint64_t seed, enum mb_discipline discipline, uint64_t draws)
{
    struct tb_random random;
    history.seed = seed;
    history.discipline = discipline;
    tb_random_seed(&random, seed, 1);
    leave_stale();
    uint64_t steps = run_history(0);
    for (uint64_t step = 1; step <= steps + 1; step++) {
        run_history(step);
        if (!is_right_after_cut(&random, draws))
            return false;
    }
    return true;
}

/*
 * In a process of its own: what was lost may be the way to anything, or to no end. Under `SEEDS`
 * histories from a seed on, or more until that many memories were seen.
 */
static bool is_found(enum mb_discipline discipline, uint64_t seed, uint64_t least)
{
    int status = 0;
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        bool found = false;
        uint64_t end = seed + SEEDS;
        freopen("/dev/null", "w", stderr);
        failed_checks = 0;
        for (; !found && (seed < end || seen->states < least); seed++)
            found = !survives(seed, discipline, 6) || checks_failed();
        _exit(found);
    }
    waitpid(child, &status, 0);
    return status != 0;
}

/* In addition to those that are. */
static bool is_found_without(struct site *site, enum mb_discipline discipline)
{
    site->left_out = true;
    left_out++;
    bool found = is_found(discipline, 1, 0);
    site->left_out = !found;
    left_out -= found;
    return found;
}

static void find_what_is_left_out(enum mb_discipline discipline)
{
    for (size_t i = 0; i < site_count; i++) {
        bool found = is_found_without(&sites[i], discipline);
        if (!found)
            fprintf(stderr, "%s:%d: %s: not found\n", sites[i].at.file, sites[i].at.line,
                    sites[i].fence ? "fence" : "flush");
        CHECK_CASE(found, discipline);
        left_out = 0;
    }
}

static void prepare_cuts(const struct mb_index_kind *kind, uint64_t (*hash)(uint64_t key))
{
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(seen != MAP_FAILED);
    history.kind = kind;
    choose_keys(hash);
}

#include "index_search.h"

/*
 * The first argument of a test: how many states to see at least. `hash`: of a hash index, that
 * chooses its buckets; else NULL. `repeats`: see sff_repeats.
 */
static inline int cut_index(const struct mb_index_kind *kind, uint64_t (*hash)(uint64_t key),
                     const char *repeats, int arguments, char **argument)
{
    uint64_t least = arguments > 1 ? strtoull(argument[1], NULL, 10) : 1;
    size_t places = 0;
    prepare_cuts(kind, hash);
    if (arguments > 2 && strcmp(argument[1], "--search") == 0)
        return search_named(argument[2], arguments > 3 ? strtoull(argument[3], NULL, 10) : 1);
    sff_repeats = repeats;
    for (uint64_t seed = 1; seed == 1 || seen->states < least; seed++)
        for (enum mb_discipline discipline = 0; discipline < MB_DISCIPLINES; discipline++) {
            if (!kind->disciplines[discipline])
                continue;
            site_count = 0;
            CHECK_CASE(survives(seed, discipline, 4), discipline);
            if (seed > 1)
                continue;
            places += site_count;
            find_what_is_left_out(discipline);
        }
    printf("%s: %llu states right, of %llu cuts (%llu sampled); left out: %zu\n", kind->name,
           (unsigned long long)seen->states, (unsigned long long)seen->cuts,
           (unsigned long long)seen->sampled, places);
    return checks_failed();
}

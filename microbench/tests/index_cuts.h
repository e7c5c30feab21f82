/*
 * An index under power cuts: included by the test of each index, before the index itself.
 *
 * A history of inserts, updates and removals is cut at every store, flush and fence; of each cut
 * several of the memories that it may leave are recovered. Every change that was acknowledged must
 * be there, and the one under way wholly or not at all. Some recoveries are cut as well.
 *
 * Where a flush or fence of the index is left out, at one place of its source, that must be found.
 */
#ifndef MICROBENCH_TESTS_INDEX_CUTS_H
#define MICROBENCH_TESTS_INDEX_CUTS_H

#include "check.h"
#include "cut.h"
#include "../indexes/policy.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where in the source the index is: a change of it knows its flushes and fences by the line. */
static const char *site_file = "";
static int site_line;
#define SITE (site_file = __FILE__, site_line = __LINE__)
#define mb_put(policy, to, value) (SITE, mb_put(policy, to, value))
#define mb_flush(policy, at) (SITE, mb_flush(policy, at))
#define mb_flush_all(policy, at, bytes) (SITE, mb_flush_all(policy, at, bytes))
#define mb_fence(policy) (SITE, mb_fence(policy))
#define mb_commit(policy, to, value) (SITE, mb_commit(policy, to, value))
/* Consistency does not depend on these. */
#define mb_flush_extra(policy, at) (site_line = 0, mb_flush_extra(policy, at))
#define mb_fence_extra(policy) (site_line = 0, mb_fence_extra(policy))
#define mb_commit_extra(policy, to, value) (site_line = 0, mb_commit_extra(policy, to, value))

#include "../indexes/index.h"

enum { KEYS = 96, CHANGES = 150, SITES_MOST = 256, CUT_CHUNK = 1024, MORE = 24, STUCK_S = 30 };

static struct {
    const struct mb_index_kind *kind;
    enum mb_discipline discipline;
    uint64_t seed, first_value;
    uint64_t values[KEYS]; /* acknowledged; 0: not there */
    volatile bool under_way;
    volatile size_t key; /* of the change under way */
    volatile uint64_t new_value;
} history;

static struct site {
    const char *file;
    int line;
    bool fence;
} sites[SITES_MOST];
static size_t site_count;
static const struct site *left_out; /* NULL: nothing is */
static uint64_t states;
static char left[CUT_BYTES], stale[CUT_BYTES]; /* of another one, that lay there before */

static bool is_left_out(bool fence)
{
    if (left_out)
        return left_out->line == site_line && left_out->fence == fence &&
               strcmp(left_out->file, site_file) == 0;
    for (size_t i = 0; i < site_count; i++)
        if (sites[i].line == site_line && sites[i].fence == fence &&
            strcmp(sites[i].file, site_file) == 0)
            return false;
    assert(site_count < SITES_MOST);
    if (site_line)
        sites[site_count++] = (struct site){site_file, site_line, fence};
    return false;
}

static void watched_flush(const void *at, size_t bytes)
{
    if (!is_left_out(false))
        cut_flush(at, bytes);
}

static void watched_fence(void)
{
    if (!is_left_out(true))
        cut_fence();
}

static const struct mb_medium watched = {"watched", cut_write, watched_flush, watched_fence};

/* Neighbours, so that nodes fill, and keys that have nothing in common. */
static uint64_t key_of(size_t number)
{
    struct tb_random random;
    if (number < KEYS * 2 / 3)
        return number + 1;
    tb_random_seed(&random, 9, number);
    return tb_random_next(&random) % MB_KEY_MOST + 1;
}

static void change(struct mb_index *index, struct tb_random *random, uint64_t number)
{
    uint64_t draw = tb_random_next(random), done = history.values[history.key = draw % KEYS];
    bool removes = done && draw >> 32 & 1, there;
    history.new_value = removes ? 0 : history.first_value + number;
    history.under_way = true;
    uint64_t key = key_of(history.key);
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

/* Until the cut, or to the end: then its steps. */
static uint64_t run_history(uint64_t stop_at)
{
    static struct mb_policy policy;
    struct tb_random random;
    policy = (struct mb_policy){.discipline = history.discipline, .medium = &watched};
    struct mb_index index = {.arena = {.base = cut.seen,
                                       .size_bytes = CUT_BYTES, .chunk_bytes = CUT_CHUNK},
                             .policy = &policy};
    cut_reset(false);
    memcpy(cut.seen, stale, CUT_BYTES);
    CHECK(history.kind->open(&index));
    cut_settle();
    site_count = left_out ? site_count : 0;
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
        bool there = history.kind->read(index, key_of(i), &value);
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
    states++;
    if (left_out)
        alarm(STUCK_S);
    if (!history.kind->recover(&index) || !has_all(&index))
        return false;
    for (size_t i = KEYS; i < KEYS + MORE; i++)
        if (!history.kind->insert(&index, key_of(i), i))
            return false;
    return has_all(&index);
}

/* A recovery that is cut in its turn. */
static bool is_right_after_two(struct tb_random *random)
{
    static const struct mb_policy policy = {.discipline = MB_DESIGNED, .medium = &watched};
    struct mb_index index = {.arena = {.base = cut.seen,
                                       .size_bytes = CUT_BYTES, .chunk_bytes = CUT_CHUNK},
                             .policy = &policy};
    memcpy(cut.seen, left, CUT_BYTES);
    cut_settle();
    cut.stop_at = (uint64_t)tb_random_between(random, 1, 40);
    if (setjmp(cut.stopped) == 0)
        CHECK(history.kind->recover(&index));
    cut_image(left, random, 2);
    return is_right(left);
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
        for (uint64_t draw = 0; draw < draws; draw++) {
            cut_image(left, &random, draw);
            if (!is_right(left))
                return false;
        }
        cut_image(left, &random, 2);
        if (!left_out && step % 8 == 0 && !is_right_after_two(&random))
            return false;
    }
    return true;
}

/* In a process of its own: what was lost may be the way to anything, or to no end. */
static bool is_found(enum mb_discipline discipline)
{
    enum { SEEDS = 8 };
    int status = 0;
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        bool found = false;
        freopen("/dev/null", "w", stderr);
        for (uint64_t seed = 1; !found && seed <= SEEDS; seed++)
            found = !survives(seed, discipline, 6);
        _exit(found);
    }
    waitpid(child, &status, 0);
    return status != 0;
}

static void find_what_is_left_out(enum mb_discipline discipline)
{
    for (size_t i = 0; i < site_count; i++) {
        if (discipline == MB_FF && sites[i].fence)
            continue; /* more than the index needs */
        left_out = &sites[i];
        bool found = is_found(discipline);
        if (!found)
            fprintf(stderr, "%s:%d: %s: not found\n", sites[i].file, sites[i].line,
                    sites[i].fence ? "fence" : "flush");
        CHECK_CASE(found, discipline);
        left_out = NULL;
    }
}

/*
 * The first argument of a test: how many states to see at least. With it, what is left out is found
 * under each discipline, but for `sff`, which persists a line several times.
 */
static int cut_index(const struct mb_index_kind *kind, int arguments, char **argument)
{
    uint64_t least = arguments > 1 ? strtoull(argument[1], NULL, 10) : 1;
    history.kind = kind;
    for (uint64_t seed = 1; states < least; seed++)
        for (enum mb_discipline discipline = 0; discipline < MB_DISCIPLINES; discipline++) {
            if (!kind->disciplines[discipline])
                continue;
            site_count = 0;
            CHECK_CASE(survives(seed, discipline, 4), discipline);
        }
    uint64_t seen = states;
    for (enum mb_discipline discipline = 0; discipline < MB_DISCIPLINES; discipline++)
        if (kind->disciplines[discipline] && discipline != MB_SFF &&
            (arguments > 1 || discipline == MB_DESIGNED || discipline == MB_OPTIMIZED)) {
            site_count = 0;
            history.seed = 1;
            history.discipline = discipline;
            run_history(0);
            find_what_is_left_out(discipline);
        }
    printf("%s: %llu states right\n", kind->name, (unsigned long long)seen);
    return checks_failed();
}

#endif

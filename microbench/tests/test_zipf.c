/* Zipf's addresses: how often each line is met, and how soon again. */
#include "check.h"
#include "kernel.h"
#include "zipf.h"

#include <math.h>

static struct mb_cursor cursor_of(double exponent, uint64_t slots, uint64_t access_bytes,
                                  uint64_t seed)
{
    struct mb_pattern pattern = {.order = MB_ZIPF, .zipf_exponent = exponent};
    static const struct mb_job job = {.threads = 1};
    struct mb_thread thread = {.job = &job, .sharers = 1};
    struct mb_cursor cursor;
    tb_random_seed(&thread.random, seed, 0);
    mb_cursor_init(&cursor, &thread, &pattern, access_bytes, NULL, slots * access_bytes, 0);
    return cursor;
}

/* The slots of the next accesses. */
static void take(struct mb_cursor *cursor, uint64_t *slots, uint64_t accesses)
{
    for (uint64_t done = 0; done < accesses;) {
        struct mb_span span = mb_cursor_next(cursor, accesses - done);
        for (uint64_t i = 0; i < span.count; i++)
            slots[done++] = (uint64_t)(uintptr_t)mb_span_at(&span, i) / MB_LINE;
    }
}

static uint64_t *taken(double exponent, uint64_t slots, uint64_t seed, uint64_t accesses)
{
    struct mb_cursor cursor = cursor_of(exponent, slots, MB_LINE, seed);
    uint64_t *found = tb_allocate(accesses, sizeof *found);
    take(&cursor, found, accesses);
    mb_cursor_free(&cursor);
    for (uint64_t i = 0; i < accesses; i++)
        CHECK_CASE(found[i] < slots, i);
    return found;
}

static double sum_of_all(double exponent, uint64_t slots)
{
    double sum = 0;
    for (uint64_t rank = slots; rank > 0; rank--)
        sum += pow((double)rank, -exponent);
    return sum;
}

/* Rank r has r^-s of what the first has; ranks are spread over the range 1:1. */
TEST(test_lines_have_the_frequencies_of_the_exponent)
{
    enum { SLOTS = 1024, DRAWS = 1 << 20 };
    static uint32_t times[SLOTS];
    uint64_t *slots = taken(0.9, SLOTS, 5, DRAWS);
    double sum = sum_of_all(0.9, SLOTS);
    for (uint64_t i = 0; i < DRAWS; i++)
        times[slots[i]]++;
    for (int rank = 1; rank <= 512; rank *= 2) { /* the rank-th largest; they lie closer and closer */
        double expected = DRAWS * pow(rank, -0.9) / sum, off = rank <= 16 ? 0.03 : 0.1;
        uint32_t above = 0, reached = 0;
        for (size_t i = 0; i < SLOTS; i++) {
            above += times[i] > expected * (1 - off);
            reached += times[i] > expected * (1 + off);
        }
        CHECK_CASE(above >= (uint32_t)rank && reached < (uint32_t)rank, rank);
    }
    free(slots);
}

/*
 * Share of accesses whose line was met among the `window` accesses before: what a cache that
 * holds lines for so long finds. Of independent draws it is the sum of p (1 - (1 - p)^window).
 */
static double met_again(const uint64_t *slots, uint64_t accesses, uint64_t range, uint64_t window)
{
    uint64_t *last = tb_allocate(range, sizeof *last), met = 0;
    for (uint64_t i = 0; i < accesses; i++) {
        uint64_t before = last[slots[i]];
        met += i >= window && before && i + 1 - before <= window;
        last[slots[i]] = i + 1;
    }
    free(last);
    return (double)met / (double)(accesses - window);
}

static double met_by_chance(double exponent, uint64_t range, uint64_t window)
{
    double sum = sum_of_all(exponent, range), met = 0;
    for (uint64_t rank = range; rank > 0; rank--) {
        double p = pow((double)rank, -exponent) / sum;
        met -= p * expm1((double)window * log1p(-p));
    }
    return met;
}

/* A ring that came round would be met again entirely in each window longer than it is. */
TEST(test_lines_come_back_as_seldom_as_by_chance)
{
    enum { RANGE = 1 << 20, ACCESSES = 5 << 20 };
    static const double exponents[] = {0.1, 0.5, 0.9, 1, 1.2, 1.5, 2, 4};
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        uint64_t *slots = taken(exponents[e], RANGE, 11 + e, ACCESSES);
        for (uint64_t window = 1 << 12; window <= 1 << 21; window *= 8) {
            double found = met_again(slots, ACCESSES, RANGE, window);
            double expected = met_by_chance(exponents[e], RANGE, window);
            CHECK_CASE(fabs(found - expected) < 0.01, 100 * exponents[e]);
        }
        free(slots);
    }
}

/* Of lines that are met once in a while so many are met at all, however steep the law is. */
TEST(test_as_many_lines_are_met_as_by_chance)
{
    enum { RANGE = 1 << 20, ACCESSES = 4 << 20 };
    static const double exponents[] = {0.5, 0.9, 1.2, 1.5, 2};
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        uint64_t *slots = taken(exponents[e], RANGE, 23 + e, ACCESSES);
        char *met = tb_allocate(RANGE, 1);
        double sum = sum_of_all(exponents[e], RANGE), expected = 0, lines = 0;
        for (uint64_t i = 0; i < ACCESSES; i++)
            met[slots[i]] = 1;
        for (uint64_t i = 0; i < RANGE; i++) {
            lines += met[i];
            expected -= expm1(ACCESSES * log1p(-pow((double)(i + 1), -exponents[e]) / sum));
        }
        CHECK_CASE(fabs(lines / expected - 1) < 0.05, 100 * exponents[e]);
        free(met);
        free(slots);
    }
}

TEST(test_the_seed_decides)
{
    enum { ACCESSES = 1 << 14 };
    uint64_t *first = taken(0.9, 1 << 16, 7, ACCESSES), *again = taken(0.9, 1 << 16, 7, ACCESSES);
    uint64_t *other = taken(0.9, 1 << 16, 8, ACCESSES);
    CHECK(memcmp(first, again, ACCESSES * sizeof *first) == 0);
    CHECK(memcmp(first, other, ACCESSES * sizeof *first) != 0);
    free(first);
    free(again);
    free(other);
}

/* Of 4 KiB, for which a ring is short. */
TEST(test_the_smallest_ranges_and_the_outermost_exponents_stay_inside)
{
    static const double exponents[] = {0.01, 0.9, 1, 10};
    static const uint64_t ranges[] = {1, 2, 3, 4, 5, 7, 16, 33, 70, UINT64_C(1) << 28}; /* 1 TiB */
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
            struct mb_cursor cursor = cursor_of(exponents[e], ranges[r], 4096, r);
            for (uint64_t i = 0; i < cursor.ring_count; i++)
                CHECK_CASE((uint64_t)(uintptr_t)cursor.ring[i] / 4096 < ranges[r], r);
            mb_cursor_free(&cursor);
        }
}

/* Draws for eight times what the last-level cache holds, of lines or of larger accesses. */
TEST(test_a_ring_moves_more_than_the_cache_holds)
{
    static const struct {
        uint64_t llc_bytes, access_bytes, draws;
    } cases[] = {
        {0, 64, 1 << 22},
        {32 * MB_MIB, 64, 1 << 22},
        {32 * MB_MIB, 256, 1 << 20},
        {32 * MB_MIB, 2 * MB_MIB, 1 << 16},
        {100 * MB_MIB, 64, 1 << 24},
        {512 * MB_MIB, 64, 1 << 24}, /* no more, for each takes tens of ns to draw */
    };
    uint64_t reported = mb_cpu.llc_bytes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mb_cpu.llc_bytes = cases[i].llc_bytes;
        CHECK_CASE(mb_zipf_draws(cases[i].access_bytes) == cases[i].draws, i);
    }
    mb_cpu.llc_bytes = reported;
}

int main(void)
{
    return checks_failed();
}

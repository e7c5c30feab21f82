/* Recovery of every log finds exactly the committed entries, wherever the power is cut. */
#include "check.h"
#include "cut.h"
#include "../log_writer.h"

enum { ENTRIES = 5, DRAWS = 40 };
static const size_t sizes[ENTRIES] = {8, 40, 64, 200, 48};
static char image[CUT_BYTES];

static void payload_of(uint64_t number, char *payload, size_t bytes)
{
    /* Words that are all zeros are in it too: they are what a lost word looks like. */
    for (size_t at = 0; at < bytes; at += MB_WORD) {
        uint64_t word = at % 24 == 16 ? 0 : number * 0x0101010101010101u + at;
        memcpy(payload + at, &word, sizeof word);
    }
}

static void visit(void *context, uint64_t number, const void *payload, size_t bytes)
{
    static char expected[512];
    CHECK(number == ++*(uint64_t *)context);
    CHECK(bytes == sizes[(number - 1) % ENTRIES]);
    payload_of(number, expected, bytes);
    CHECK_CASE(memcmp(payload, expected, bytes) == 0, number);
}

/* Volatile: they live across the jump. */
static volatile uint64_t committed, begun;

static void fill(struct mb_log *log, uint64_t entries)
{
    static char payload[512];
    for (uint64_t i = 0; i < entries; i++) {
        size_t bytes = sizes[i % ENTRIES];
        payload_of(i + 1, payload, bytes);
        begun = i + 1;
        CHECK(mb_log_append(log, &cut_medium, payload, bytes));
        committed = i + 1;
    }
}

static uint64_t cut_at(uint64_t step, enum mb_log_kind kind, bool padded, bool non_temporal)
{
    struct mb_log log;
    cut_reset(non_temporal);
    mb_log_open(&log, cut.seen, sizeof cut.seen, kind, padded);
    cut.stop_at = step;
    committed = begun = 0;
    if (setjmp(cut.stopped) == 0)
        fill(&log, ENTRIES);
    return cut.step;
}

static void every_cut(enum mb_log_kind kind, bool padded, bool non_temporal)
{
    struct tb_random random;
    tb_random_seed(&random, 7, kind);
    uint64_t steps = cut_at(0, kind, padded, non_temporal), whole = 0;
    CHECK(steps > 50 && committed == ENTRIES);
    for (uint64_t step = 1; step <= steps; step++) {
        cut_at(step, kind, padded, non_temporal);
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            uint64_t seen = 0;
            cut_image(image, &random, draw);
            uint64_t found = mb_log_recover(image, sizeof image, kind, padded, visit, &seen);
            /* The entry that was under way may have arrived whole; more than it may not. */
            CHECK_CASE(found == committed || found == begun, step);
            CHECK(seen == found);
            whole += found > committed;
        }
    }
    CHECK(whole > 0); /* the draws do reach what had not been waited for */
}

/* Group commit: of the group under way some entries may have arrived, as a prefix; none is lost
 * of those before. */
enum { GROUPS = 3, GROUP = 4, GROUP_BYTES = 40 };

static void visit_group(void *context, uint64_t number, const void *payload, size_t bytes)
{
    static char expected[GROUP_BYTES];
    CHECK(number == ++*(uint64_t *)context && bytes == GROUP_BYTES);
    payload_of(number, expected, bytes);
    CHECK_CASE(memcmp(payload, expected, bytes) == 0, number);
}

static uint64_t groups_cut_at(uint64_t step, enum mb_log_kind kind, bool padded)
{
    static char entries[GROUPS * GROUP][GROUP_BYTES];
    struct mb_log log;
    cut_reset(false);
    mb_log_open(&log, cut.seen, sizeof cut.seen, kind, padded);
    cut.stop_at = step;
    committed = begun = 0;
    if (setjmp(cut.stopped) != 0)
        return cut.step;
    for (uint64_t group = 0; group < GROUPS; group++) {
        const void *payloads[GROUP];
        for (uint64_t i = 0; i < GROUP; i++) {
            payloads[i] = entries[group * GROUP + i];
            payload_of(group * GROUP + i + 1, entries[group * GROUP + i], GROUP_BYTES);
        }
        begun = (group + 1) * GROUP;
        CHECK(mb_log_append_group(&log, &cut_medium, payloads, GROUP, GROUP_BYTES));
        committed = begun;
    }
    return cut.step;
}

static void every_cut_of_groups(enum mb_log_kind kind, bool padded)
{
    struct tb_random random;
    tb_random_seed(&random, 7, kind);
    uint64_t steps = groups_cut_at(0, kind, padded);
    CHECK(steps > 20 && committed == GROUPS * GROUP);
    for (uint64_t step = 1; step <= steps; step++) {
        groups_cut_at(step, kind, padded);
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            uint64_t seen = 0;
            cut_image(image, &random, draw);
            uint64_t found = mb_log_recover(image, sizeof image, kind, padded, visit_group, &seen);
            CHECK_CASE(found >= committed && found <= begun, step);
            CHECK(seen == found);
        }
    }
}

/* A log that leaves out its barrier loses entries or finds broken ones: the cuts can tell. */
static void no_fence(void) {}
static uint64_t broken;

static void compare(void *context, uint64_t number, const void *payload, size_t bytes)
{
    char expected[512];
    payload_of(number, expected, bytes);
    broken += memcmp(payload, expected, bytes) != 0;
}

static void a_missing_fence_is_found(enum mb_log_kind kind)
{
    static const struct mb_medium lazy = {"lazy", cut_write, cut_flush, no_fence};
    struct tb_random random;
    struct mb_log log;
    char payload[512];
    uint64_t lost = 0;
    broken = 0;
    tb_random_seed(&random, 7, 99);
    cut_reset(false);
    mb_log_open(&log, cut.seen, sizeof cut.seen, kind, true);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        payload_of(i + 1, payload, sizes[i]);
        CHECK(mb_log_append(&log, &lazy, payload, sizes[i]));
    }
    for (uint64_t draw = 0; draw < 200; draw++) {
        cut_image(image, &random, draw);
        lost += mb_log_recover(image, sizeof image, kind, true, compare, NULL) < ENTRIES;
    }
    CHECK(lost > 0);
    CHECK(kind == MB_LOG_ZERO ? broken == 0 : broken > 0); /* zero's count separates them */
}

int main(void)
{
    for (int kind = MB_LOG_CLASSIC; kind <= MB_LOG_ZERO; kind++)
        for (int padded = 0; padded < 2; padded++)
            for (int non_temporal = 0; non_temporal < 2; non_temporal++)
                every_cut((enum mb_log_kind)kind, padded, non_temporal);
    for (int kind = MB_LOG_CLASSIC; kind <= MB_LOG_ZERO; kind++)
        for (int padded = 0; padded < 2; padded++)
            every_cut_of_groups((enum mb_log_kind)kind, padded);
    a_missing_fence_is_found(MB_LOG_CLASSIC);
    a_missing_fence_is_found(MB_LOG_HEADER);
    a_missing_fence_is_found(MB_LOG_ZERO);
    return checks_failed();
}

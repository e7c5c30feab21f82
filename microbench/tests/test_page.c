/* Recovery finds every page as it was flushed last, or as the flush under way leaves it. */
#include "check.h"
#include "cut.h"
#include "../page_flush.h"

enum { PAGES = 3, PAGE = 512, LINES = PAGE / 64, FLUSHES = 12, DRAWS = 16 };
static char image[CUT_BYTES];

static struct {
    char dram[PAGES][PAGE]; /* as the buffer manager has them */
    char old[PAGE];         /* of the page under way, before its flush */
    volatile uint32_t page;
    volatile bool under_way;
} state;

static void change(uint64_t round, struct mb_dirty *dirty, uint32_t page)
{
    struct tb_random random;
    tb_random_seed(&random, 5, round);
    *dirty = (struct mb_dirty){0};
    for (uint16_t line = 0; line < LINES; line++) {
        if (line != round % LINES && tb_random_next(&random) % 3 != 0)
            continue;
        dirty->lines[dirty->count++] = line;
        dirty->bits[0] |= UINT64_C(1) << line;
        for (size_t word = 0; word < 8; word++) {
            uint64_t value = tb_random_next(&random);
            memcpy(state.dram[page] + line * 64 + word * 8, &value, 8);
        }
    }
}

/* methods: which of them, in turn. Several in one store is what the hybrid does. */
static uint64_t cut_at(uint64_t step, const enum mb_page_method *methods, size_t count,
                       bool non_temporal)
{
    struct mb_page_store store;
    struct mb_dirty dirty;
    cut_reset(non_temporal);
    mb_pages_open(&store, cut.seen, PAGES, PAGE);
    memset(state.dram, 0, sizeof state.dram);
    cut_settle();
    cut.stop_at = step;
    state.under_way = false;
    if (setjmp(cut.stopped) == 0) {
        for (uint64_t round = 0; round < FLUSHES; round++) {
            state.page = (uint32_t)(round / 2 % PAGES);
            memcpy(state.old, state.dram[state.page], PAGE);
            change(round, &dirty, state.page);
            state.under_way = true;
            mb_page_flush(&store, &cut_medium, methods[round % count], state.page,
                          state.dram[state.page], &dirty);
            state.under_way = false;
        }
    }
    mb_pages_close(&store);
    return cut.step;
}

static void every_cut(const enum mb_page_method *methods, size_t count, bool non_temporal)
{
    struct tb_random random;
    tb_random_seed(&random, 11, count);
    uint64_t steps = cut_at(0, methods, count, non_temporal), old = 0, new = 0;
    CHECK(steps > 100);
    for (uint64_t step = 1; step <= steps; step++) {
        cut_at(step, methods, count, non_temporal);
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            struct mb_page_store found;
            cut_image(image, &random, draw);
            CHECK_CASE(mb_pages_recover(&found, image, PAGES, PAGE), step);
            for (uint32_t page = 0; page < PAGES; page++) {
                const char *content = mb_slot(&found, found.slot_of[page]);
                bool is_new = memcmp(content, state.dram[page], PAGE) == 0;
                bool is_old = state.under_way && page == state.page &&
                              memcmp(content, state.old, PAGE) == 0;
                CHECK_CASE(is_new || is_old, step);
                new += is_new && state.under_way && page == state.page;
                old += is_old;
            }
            mb_pages_close(&found);
        }
    }
    CHECK(old > 0 && new > 0);
}

/* A flush goes on from what recovery found: the spare slot is free. */
static void a_recovered_store_goes_on(void)
{
    static const enum mb_page_method cow = MB_PAGE_COW;
    struct tb_random random;
    struct mb_dirty dirty;
    struct mb_page_store found;
    tb_random_seed(&random, 3, 3);
    cut_at(90, &cow, 1, false);
    cut_image(image, &random, 1);
    CHECK(mb_pages_recover(&found, image, PAGES, PAGE));
    for (uint64_t round = 20; round < 40; round++) {
        uint32_t page = (uint32_t)round % PAGES;
        memcpy(state.dram[page], mb_slot(&found, found.slot_of[page]), PAGE);
        change(round, &dirty, page);
        mb_page_flush(&found, &mb_medium_none, round % 2 ? MB_PAGE_COW_DIRTY : MB_PAGE_ULOG, page,
                      state.dram[page], &dirty);
        for (uint32_t i = 0; i < PAGES; i++)
            CHECK_CASE(found.slot_of[i] != found.spare, round);
        const char *content = mb_slot(&found, found.slot_of[page]);
        CHECK_CASE(memcmp(content, state.dram[page], PAGE) == 0, round);
    }
    mb_pages_close(&found);
}

/* A persistency barrier waits for lines that were flushed (DaMoN'19, section 3.1). */
static struct {
    bool flushed;
    unsigned barriers;
} counted;

static void counted_flush(const void *at, size_t bytes)
{
    counted.flushed = bytes > 0;
}

static void counted_fence(void)
{
    counted.barriers += counted.flushed;
    counted.flushed = false;
}

static void a_flush_has_the_barriers_of_its_method(void)
{
    static const struct mb_medium medium = {"counted", cut_write, counted_flush, counted_fence};
    static const struct {
        enum mb_page_method method;
        unsigned barriers;
    } cases[] = {{MB_PAGE_COW, 2}, {MB_PAGE_COW_DIRTY, 2}, {MB_PAGE_COW_INVALIDATE, 3},
                 {MB_PAGE_ULOG, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mb_page_store store;
        struct mb_dirty dirty;
        cut_reset(false);
        mb_pages_open(&store, cut.seen, PAGES, PAGE);
        change(i, &dirty, 1);
        counted.barriers = 0;
        mb_page_flush(&store, &medium, cases[i].method, 1, state.dram[1], &dirty);
        CHECK_CASE(counted.barriers == cases[i].barriers, i);
        mb_pages_close(&store);
    }
}

int main(void)
{
    static const enum mb_page_method cow[] = {MB_PAGE_COW}, dirty[] = {MB_PAGE_COW_DIRTY},
                                     invalidate[] = {MB_PAGE_COW_INVALIDATE},
                                     ulog[] = {MB_PAGE_ULOG},
                                     hybrid[] = {MB_PAGE_ULOG, MB_PAGE_COW, MB_PAGE_ULOG,
                                                 MB_PAGE_COW_DIRTY};
    CHECK(mb_pages_bytes(PAGES, PAGE) <= CUT_BYTES);
    for (int non_temporal = 0; non_temporal < 2; non_temporal++) {
        every_cut(cow, 1, non_temporal);
        every_cut(dirty, 1, non_temporal);
        every_cut(invalidate, 1, non_temporal);
        every_cut(ulog, 1, non_temporal);
        every_cut(hybrid, 4, non_temporal);
    }
    a_recovered_store_goes_on();
    a_flush_has_the_barriers_of_its_method();
    return checks_failed();
}

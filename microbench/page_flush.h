/*
 * Failure-atomic page flush (DaMoN'19, section 3.2): a page goes from DRAM to durable memory so
 * that recovery finds its old content or its new one, whole, wherever the power is cut.
 *
 *   cow        the page is written to the spare slot, then the slot's header names the page
 *              and a version above all others: two barriers, every line written.
 *   cow_dirty  likewise, where only the dirty lines are in DRAM: the others are read from the
 *              old slot.
 *   cow_invalidate  without versions: the page is written to the spare slot, the slot's header
 *              names the page, and the header of the old slot no longer does: three barriers.
 *              Between the last two both slots name the page, and either is whole.
 *   ulog       the dirty lines go to a small log, the log is made valid, then they go to the
 *              page itself: four barriers, only dirty lines written, those twice.
 *
 * Versions are drawn from one counter, not from the page's: between the write of a slot's page
 * number and that of its version the slot shows its new page with its old version, and no
 * version of that page may be equal to it. The log names the version that its lines belong
 * to: recovery leaves a log alone whose page has since been copied to another slot. After
 * cow_invalidate a version stands for its slot alone, so that no store may see both.
 *
 * Layout: the log's page number (a line), the log {version, count}, line numbers, lines;
 * then the headers (a line each); then the slots, one more than pages.
 */
#pragma once

#include "durable.h"

enum mb_page_method {
    MB_PAGE_COW,
    MB_PAGE_COW_DIRTY,
    MB_PAGE_COW_INVALIDATE,
    MB_PAGE_ULOG
};
enum { MB_PAGE_LINES_MOST = 1024 };

struct mb_slot_header {
    uint64_t page; /* from 1; 0: none */
    uint64_t version;
    uint64_t unused[6];
};

struct mb_page_log {
    uint64_t page; /* 0: not valid; on a line of its own */
    uint64_t unused[7];
    uint64_t version, count;
};

struct mb_page_store {
    char *base; /* on a line */
    uint32_t pages;
    size_t page_bytes;
    /* What a buffer manager knows in DRAM; recovery does without. */
    uint32_t *slot_of; /* by page */
    uint64_t *version_of;
    uint32_t spare;
    uint64_t version; /* the last one drawn */
};

/* Which lines of a page are dirty: their numbers, ascending, and as bits. */
struct mb_dirty {
    uint32_t count;
    uint16_t lines[MB_PAGE_LINES_MOST];
    uint64_t bits[MB_PAGE_LINES_MOST / 64];
};

/* How many pages of a size fit; 0: not one. */
uint32_t mb_pages_fit(size_t bytes, size_t page_bytes);
size_t mb_pages_bytes(uint32_t pages, size_t page_bytes);
/* Page i lies in slot i, the last slot is spare; the content of pages is left as it is. */
void mb_pages_open(struct mb_page_store *store, void *base, uint32_t pages, size_t page_bytes);
void mb_pages_close(struct mb_page_store *store);
/* After a cut: reapplies a valid log, then finds each page. base is repaired in place. False
 * where a page is nowhere. mb_pages_close in either case. */
bool mb_pages_recover(struct mb_page_store *store, void *base, uint32_t pages, size_t page_bytes);

MB_ALWAYS_INLINE size_t mb_page_log_bytes(size_t page_bytes)
{
    size_t lines = page_bytes / MB_LINE, numbers = (lines * sizeof(uint16_t) + 63) / 64 * 64;
    return 2 * MB_LINE + numbers + page_bytes;
}

MB_ALWAYS_INLINE char *mb_page_log_lines(const struct mb_page_store *store)
{
    return store->base + mb_page_log_bytes(store->page_bytes) - store->page_bytes;
}

MB_ALWAYS_INLINE struct mb_slot_header *mb_slot_header(const struct mb_page_store *store,
                                                       uint32_t slot)
{
    void *first = store->base + mb_page_log_bytes(store->page_bytes);
    return (struct mb_slot_header *)first + slot;
}

MB_ALWAYS_INLINE char *mb_slot(const struct mb_page_store *store, uint32_t slot)
{
    return (char *)mb_slot_header(store, store->pages + 1) + slot * store->page_bytes;
}

/* Writes the page durably into the spare slot, whose header stays as it was. */
MB_ALWAYS_INLINE void mb_page_fill(struct mb_page_store *store, const struct mb_medium *medium,
                                   uint32_t page, const char *from, const struct mb_dirty *dirty,
                                   bool only_dirty)
{
    char *to = mb_slot(store, store->spare);
    if (only_dirty) {
        const char *old = mb_slot(store, store->slot_of[page]);
        for (uint32_t line = 0; line < store->page_bytes / MB_LINE; line++) {
            bool fresh = dirty->bits[line / 64] >> line % 64 & 1;
            medium->write(to + line * MB_LINE, (fresh ? from : old) + line * MB_LINE, MB_LINE);
        }
    } else {
        medium->write(to, from, store->page_bytes);
    }
    mb_persist(medium, to, store->page_bytes);
}

MB_ALWAYS_INLINE void mb_page_moved(struct mb_page_store *store, uint32_t page, uint64_t version)
{
    uint32_t old = store->slot_of[page];
    store->slot_of[page] = store->spare;
    store->version_of[page] = version;
    store->spare = old;
}

MB_ALWAYS_INLINE void mb_page_copy(struct mb_page_store *store, const struct mb_medium *medium,
                                   uint32_t page, const char *from, const struct mb_dirty *dirty,
                                   bool only_dirty)
{
    struct mb_slot_header *header = mb_slot_header(store, store->spare);
    mb_page_fill(store, medium, page, from, dirty, only_dirty);
    mb_write_word(medium, &header->page, (uint64_t)page + 1);
    medium->fence();
    mb_write_word(medium, &header->version, ++store->version);
    mb_persist(medium, header, 2 * MB_WORD);
    mb_page_moved(store, page, store->version);
}

MB_ALWAYS_INLINE void mb_page_copy_invalidate(struct mb_page_store *store,
                                              const struct mb_medium *medium, uint32_t page,
                                              const char *from, const struct mb_dirty *dirty)
{
    struct mb_slot_header *header = mb_slot_header(store, store->spare);
    struct mb_slot_header *old = mb_slot_header(store, store->slot_of[page]);
    mb_page_fill(store, medium, page, from, dirty, false);
    mb_write_word(medium, &header->page, (uint64_t)page + 1);
    mb_persist(medium, &header->page, MB_WORD);
    mb_write_word(medium, &old->page, 0);
    mb_persist(medium, &old->page, MB_WORD);
    mb_page_moved(store, page, header->version);
}

MB_ALWAYS_INLINE void mb_page_log_write(struct mb_page_store *store,
                                        const struct mb_medium *medium, uint32_t page,
                                        const char *from, const struct mb_dirty *dirty)
{
    struct mb_page_log *log = (struct mb_page_log *)(void *)store->base;
    char *lines = mb_page_log_lines(store), *to = mb_slot(store, store->slot_of[page]);
    uint64_t head[2] = {store->version_of[page], dirty->count};
    size_t numbers = (dirty->count * sizeof *dirty->lines + MB_WORD - 1) & ~(size_t)(MB_WORD - 1);

    mb_write_word(medium, &log->page, 0);
    mb_persist(medium, &log->page, MB_WORD);

    medium->write(&log->version, head, sizeof head);
    medium->write(&log->count + 1, dirty->lines, numbers);
    for (uint32_t i = 0; i < dirty->count; i++)
        medium->write(lines + i * MB_LINE, from + dirty->lines[i] * MB_LINE, MB_LINE);
    medium->flush(&log->version, sizeof head + numbers);
    mb_persist(medium, lines, dirty->count * MB_LINE);

    mb_write_word(medium, &log->page, (uint64_t)page + 1);
    mb_persist(medium, &log->page, MB_WORD);

    for (uint32_t i = 0; i < dirty->count; i++) {
        size_t at = dirty->lines[i] * MB_LINE;
        medium->write(to + at, from + at, MB_LINE);
        medium->flush(to + at, MB_LINE);
    }
    medium->fence();
}

/* page: from 0; from: the page in DRAM, of which dirty's lines differ from the durable one. */
MB_ALWAYS_INLINE void mb_page_flush(struct mb_page_store *store, const struct mb_medium *medium,
                                    enum mb_page_method method, uint32_t page, const char *from,
                                    const struct mb_dirty *dirty)
{
    if (method == MB_PAGE_ULOG)
        mb_page_log_write(store, medium, page, from, dirty);
    else if (method == MB_PAGE_COW_INVALIDATE)
        mb_page_copy_invalidate(store, medium, page, from, dirty);
    else
        mb_page_copy(store, medium, page, from, dirty, method == MB_PAGE_COW_DIRTY);
}

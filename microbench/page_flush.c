/*
 * A store of pages, and what a restart makes of it: of the slots that name a page the one with
 * the greatest version is that page, and the lines of a valid log belong to it if it still has
 * the version that they were logged for.
 */
#include "page_flush.h"

size_t mb_pages_bytes(uint32_t pages, size_t page_bytes)
{
    return mb_page_log_bytes(page_bytes) +
           ((size_t)pages + 1) * (sizeof(struct mb_slot_header) + page_bytes);
}

uint32_t mb_pages_fit(size_t bytes, size_t page_bytes)
{
    size_t least = mb_pages_bytes(0, page_bytes);
    size_t each = sizeof(struct mb_slot_header) + page_bytes;
    size_t fit = bytes < least ? 0 : (bytes - least) / each;
    return fit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)fit;
}

static void shape(struct mb_page_store *store, void *base, uint32_t pages, size_t page_bytes)
{
    *store = (struct mb_page_store){.base = base, .pages = pages, .page_bytes = page_bytes};
    store->slot_of = tb_allocate(pages, sizeof *store->slot_of);
    store->version_of = tb_allocate(pages, sizeof *store->version_of);
}

void mb_pages_open(struct mb_page_store *store, void *base, uint32_t pages, size_t page_bytes)
{
    shape(store, base, pages, page_bytes);
    memset(base, 0, 2 * MB_LINE);
    for (uint32_t i = 0; i <= pages; i++) {
        struct mb_slot_header header = {.page = i < pages ? i + 1 : 0, .version = i + 1};
        memcpy(mb_slot_header(store, i), &header, sizeof header);
        if (i == pages)
            break;
        store->slot_of[i] = i;
        store->version_of[i] = i + 1;
    }
    store->spare = pages;
    store->version = pages + 1;
}

void mb_pages_close(struct mb_page_store *store)
{
    free(store->slot_of);
    free(store->version_of);
    *store = (struct mb_page_store){0};
}

static bool find_pages(struct mb_page_store *store)
{
    for (uint32_t slot = 0; slot <= store->pages; slot++) {
        const struct mb_slot_header *header = mb_slot_header(store, slot);
        if (header->version > store->version)
            store->version = header->version;
        if (header->page == 0 || header->page > store->pages)
            continue;
        uint32_t page = (uint32_t)header->page - 1;
        if (header->version > store->version_of[page]) {
            store->version_of[page] = header->version;
            store->slot_of[page] = slot;
        }
    }
    uint64_t slots = 0; /* the spare is the one whose number is missing in the sum */
    for (uint32_t page = 0; page < store->pages; page++) {
        if (store->version_of[page] == 0)
            return false;
        slots += store->slot_of[page];
    }
    store->spare = (uint32_t)((uint64_t)store->pages * ((uint64_t)store->pages + 1) / 2 - slots);
    return true;
}

static void reapply(struct mb_page_store *store)
{
    const struct mb_page_log *log = (const struct mb_page_log *)(const void *)store->base;
    const uint16_t *numbers = (const uint16_t *)(&log->count + 1);
    size_t lines = store->page_bytes / MB_LINE;
    if (log->page == 0 || log->page > store->pages || log->count > lines)
        return;
    uint32_t page = (uint32_t)log->page - 1;
    if (log->version != store->version_of[page])
        return;
    char *to = mb_slot(store, store->slot_of[page]);
    for (uint64_t i = 0; i < log->count; i++)
        if (numbers[i] < lines)
            memcpy(to + numbers[i] * MB_LINE, mb_page_log_lines(store) + i * MB_LINE, MB_LINE);
}

bool mb_pages_recover(struct mb_page_store *store, void *base, uint32_t pages, size_t page_bytes)
{
    shape(store, base, pages, page_bytes);
    if (!find_pages(store))
        return false;
    reapply(store);
    return true;
}

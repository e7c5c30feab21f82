/*
 * Log writers (DaMoN'19, section 3.3): how an entry is appended so that recovery finds exactly
 * the entries that were committed, wherever the power is cut.
 *
 *   classic  header and payload durable first, then a footer with the entry's number: two
 *            barriers, and recovery believes an entry whose footer repeats its header.
 *   header   entry durable first, then the log's size in its first line: two barriers, and
 *            the same line written every time (what libpmemlog does).
 *   dancing  as header, but the size goes to one of 64 lines in turn; the greatest counts.
 *   zero     the log was filled with zeros; the entry carries the number of its set bits.
 *            A word that did not arrive is zero, so the count is short: one barrier.
 *
 * Naive, an entry begins where the one before ends, so the line between two entries is written
 * twice in a row; padded, every entry begins a line, and so does classic's footer.
 *
 * Layout: 64 lines of size fields, then entries: {number, bytes}, zero's count, payload,
 * classic's footer. All in words.
 */
#pragma once

#include "durable.h"

enum mb_log_kind { MB_LOG_CLASSIC, MB_LOG_HEADER, MB_LOG_DANCING, MB_LOG_ZERO };
enum { MB_LOG_SIZE_FIELDS = 64, MB_LOG_AREA = MB_LOG_SIZE_FIELDS * MB_LINE };

struct mb_log_entry {
    uint64_t number; /* from 1 */
    uint64_t bytes;  /* of the payload */
};

struct mb_log {
    char *base;   /* on a line; MB_LOG_AREA and entries after it */
    size_t bytes; /* of it all */
    enum mb_log_kind kind;
    bool padded;
    size_t tail;     /* where the next entry begins, after the size fields */
    uint64_t number; /* of the last entry; 0: none */
};

/* Calls for each entry recovered, in order. */
typedef void mb_log_visit(void *context, uint64_t number, const void *payload, size_t bytes);

/* Over a base that is all zeros. */
void mb_log_open(struct mb_log *log, void *base, size_t bytes, enum mb_log_kind kind, bool padded);
/* The number of entries that a restart finds; visit may be NULL. Reads base alone: of the log
 * as it was, nothing is believed. */
uint64_t mb_log_recover(const void *base, size_t bytes, enum mb_log_kind kind, bool padded,
                        mb_log_visit *visit, void *context);
/* Bytes from one entry's begin to the next one's. */
size_t mb_log_stride(enum mb_log_kind kind, bool padded, size_t payload_bytes);

MB_ALWAYS_INLINE size_t mb_lines_up(size_t bytes)
{
    return (bytes + MB_LINE - 1) & ~(size_t)(MB_LINE - 1);
}

MB_ALWAYS_INLINE uint64_t mb_set_bits(const void *words, size_t bytes)
{
    uint64_t bits = 0;
    for (size_t at = 0; at < bytes; at += MB_WORD) {
        uint64_t word;
        memcpy(&word, (const char *)words + at, sizeof word);
#if defined(__x86_64__)
        /* Older than clflush's successors: every processor that is measured here has it. */
        __asm__("popcntq %1, %0" : "=r"(word) : "r"(word) : "cc");
        bits += word;
#else
        bits += (uint64_t)__builtin_popcountll(word);
#endif
    }
    return bits;
}

/* Where the parts of an entry lie, from its begin. */
struct mb_log_shape {
    size_t payload, footer, stride;
};

MB_ALWAYS_INLINE struct mb_log_shape mb_log_shape(enum mb_log_kind kind, bool padded,
                                                  size_t payload_bytes)
{
    struct mb_log_shape shape = {.payload = sizeof(struct mb_log_entry)};
    if (kind == MB_LOG_ZERO)
        shape.payload += MB_WORD;
    shape.footer = shape.payload + payload_bytes;
    if (padded)
        shape.footer = mb_lines_up(shape.footer);
    shape.stride = shape.footer + (kind == MB_LOG_CLASSIC ? MB_WORD : 0);
    if (padded)
        shape.stride = mb_lines_up(shape.stride);
    return shape;
}

MB_ALWAYS_INLINE uint64_t *mb_log_size_field(const struct mb_log *log, uint64_t number)
{
    size_t field = log->kind == MB_LOG_DANCING ? number % MB_LOG_SIZE_FIELDS : 0;
    return (uint64_t *)(void *)(log->base + field * MB_LINE);
}

/*
 * Group commit: several entries of the same size share their barriers, and are durable when it
 * returns. False where they do not fit; the log is as it was. bytes: whole words, more than 0.
 */
MB_ALWAYS_INLINE bool mb_log_append_group(struct mb_log *log, const struct mb_medium *medium,
                                   const void *const *payloads, size_t count, size_t bytes)
{
    struct mb_log_shape shape = mb_log_shape(log->kind, log->padded, bytes);
    if (log->tail + count * shape.stride > log->bytes - MB_LOG_AREA)
        return false;
    char *entries = log->base + MB_LOG_AREA + log->tail;
    for (size_t i = 0; i < count; i++) {
        char *entry = entries + i * shape.stride;
        struct mb_log_entry head = {log->number + 1 + i, bytes};
        medium->write(entry, &head, sizeof head);
        if (log->kind == MB_LOG_ZERO) {
            uint64_t bits = mb_set_bits(&head, sizeof head) + mb_set_bits(payloads[i], bytes);
            mb_write_word(medium, (uint64_t *)(void *)(entry + sizeof head), bits);
        }
        medium->write(entry + shape.payload, payloads[i], bytes);
        medium->flush(entry, shape.payload + bytes);
    }
    medium->fence();
    log->tail += count * shape.stride;
    log->number += count;
    if (log->kind == MB_LOG_CLASSIC) {
        for (size_t i = 0; i < count; i++) {
            uint64_t *footer = (uint64_t *)(void *)(entries + i * shape.stride + shape.footer);
            mb_write_word(medium, footer, log->number - count + 1 + i);
            medium->flush(footer, sizeof *footer);
        }
        medium->fence();
    } else if (log->kind != MB_LOG_ZERO) {
        uint64_t *size = mb_log_size_field(log, log->number);
        mb_write_word(medium, size, log->tail);
        mb_persist(medium, size, sizeof *size);
    }
    return true;
}

/* One entry, with barriers of its own. */
MB_ALWAYS_INLINE bool mb_log_append(struct mb_log *log, const struct mb_medium *medium,
                             const void *payload, size_t bytes)
{
    return mb_log_append_group(log, medium, &payload, 1, bytes);
}

/*
 * What a restart makes of a log: from the first entry on, as far as the entries can be
 * believed. Every field that recovery follows is checked before it is followed: after the last
 * committed entry lies whatever the cut left there.
 */
#include "log_writer.h"

void mb_log_open(struct mb_log *log, void *base, size_t bytes, enum mb_log_kind kind, bool padded)
{
    *log = (struct mb_log){.base = base, .bytes = bytes, .kind = kind, .padded = padded};
}

size_t mb_log_stride(enum mb_log_kind kind, bool padded, size_t payload_bytes)
{
    return mb_log_shape(kind, padded, payload_bytes).stride;
}

static uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* How far the size fields say that the log goes; a log without them may go to its end. */
static size_t size_of(const char *base, size_t room, enum mb_log_kind kind)
{
    if (kind == MB_LOG_CLASSIC || kind == MB_LOG_ZERO)
        return room;
    size_t fields = kind == MB_LOG_DANCING ? MB_LOG_SIZE_FIELDS : 1;
    uint64_t size = 0;
    for (size_t i = 0; i < fields; i++) {
        uint64_t said = word_at(base + i * MB_LINE);
        if (said > size && said <= room)
            size = said;
    }
    return (size_t)size;
}

static bool believed(const char *entry, const struct mb_log_entry *head,
                     const struct mb_log_shape *shape, enum mb_log_kind kind)
{
    if (kind == MB_LOG_CLASSIC)
        return word_at(entry + shape->footer) == head->number;
    if (kind == MB_LOG_ZERO)
        return word_at(entry + sizeof *head) ==
               mb_set_bits(head, sizeof *head) + mb_set_bits(entry + shape->payload, head->bytes);
    return true; /* the size field said so */
}

uint64_t mb_log_recover(const void *base, size_t bytes, enum mb_log_kind kind, bool padded,
                        mb_log_visit *visit, void *context)
{
    const char *area = (const char *)base + MB_LOG_AREA;
    size_t end = size_of(base, bytes - MB_LOG_AREA, kind);
    uint64_t found = 0;
    for (size_t at = 0; at + sizeof(struct mb_log_entry) <= end;) {
        struct mb_log_entry head;
        memcpy(&head, area + at, sizeof head);
        if (head.number != found + 1 || head.bytes == 0 || head.bytes % MB_WORD != 0 ||
            head.bytes > end - at)
            break;
        struct mb_log_shape shape = mb_log_shape(kind, padded, (size_t)head.bytes);
        if (shape.stride > end - at || !believed(area + at, &head, &shape, kind))
            break;
        found++;
        if (visit)
            visit(context, found, area + at + shape.payload, (size_t)head.bytes);
        at += shape.stride;
    }
    return found;
}

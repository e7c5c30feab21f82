/* See record.h. */
#include "record.h"
#include "workload.h"

#include <endian.h>

/* A length and as many bytes. */
static bool take(const char **at, const char *end, const char **bytes, size_t *length)
{
    uint32_t big;

    if ((size_t)(end - *at) < sizeof big)
        return false;
    memcpy(&big, *at, sizeof big);
    *length = be32toh(big);
    *bytes = *at + sizeof big;
    if ((size_t)(end - *bytes) < *length)
        return false;
    *at = *bytes + *length;
    return true;
}

bool lg_field_next(const char **at, const char *end, struct lg_field *field)
{
    const char *next = *at;

    if (!take(&next, end, &field->name, &field->name_length) ||
        !take(&next, end, &field->value, &field->value_length))
        return false;
    *at = next;
    return true;
}

static void add(struct tb_text *record, const char *bytes, size_t length)
{
    uint32_t big = htobe32((uint32_t)length);

    tb_text_add(record, (const char *)&big, sizeof big);
    tb_text_add(record, bytes, length);
}

void lg_field_add(struct tb_text *record, const char *name, size_t name_length,
                  const char *value, size_t value_length)
{
    add(record, name, name_length);
    add(record, value, value_length);
}

/* The last field of that name: the later of two changes stands. */
static bool find(const char *at, const char *end, const struct lg_field *named,
                 struct lg_field *found)
{
    struct lg_field field;
    bool there = false;

    while (lg_field_next(&at, end, &field)) {
        if (field.name_length == named->name_length &&
            memcmp(field.name, named->name, field.name_length) == 0) {
            *found = field;
            there = true;
        }
    }
    return there;
}

bool lg_record_change(struct tb_text *changed, const char *record, size_t record_length,
                      const char *change, size_t change_length)
{
    const char *at = record, *end = record + record_length;
    const char *change_at = change, *change_end = change + change_length;
    struct lg_field field, other;

    while (lg_field_next(&at, end, &field)) {
        find(change, change_end, &field, &field);
        lg_field_add(changed, field.name, field.name_length, field.value, field.value_length);
    }
    while (lg_field_next(&change_at, change_end, &field)) {
        bool last = !find(change_at, change_end, &field, &other);

        if (last && !find(record, end, &field, &other))
            lg_field_add(changed, field.name, field.name_length, field.value,
                         field.value_length);
    }
    return at == end && change_at == change_end;
}

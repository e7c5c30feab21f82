/*
 * A record of a key-value engine: its fields one after the other, each as length of the
 * name (4 bytes, big-endian), name, length of the value (likewise), value. That is how the
 * official RocksDB binding of YCSB writes them. A change is the same with the changed
 * fields alone.
 */
#pragma once

#include "native.h"

struct tb_text;

struct lg_field {
    const char *name, *value;
    size_t name_length, value_length;
};

/* Takes the field at `*at` and moves past it; false at the end, and where none fits in. */
bool lg_field_next(const char **at, const char *end, struct lg_field *field);
void lg_field_add(struct tb_text *record, const char *name, size_t name_length,
                  const char *value, size_t value_length);

/*
 * Adds to `changed` the record with the values of `change` in place of its own: fields keep
 * their order, new ones come after. False where one of the two is not well formed.
 */
bool lg_record_change(struct tb_text *changed, const char *record, size_t record_length,
                      const char *change, size_t change_length);

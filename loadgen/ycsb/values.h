/*
 * What stands in a field: a function of data seed, key, field and version, so that whoever
 * reads it can tell whether it is as it was written, and which writing it is of.
 *
 *   version, 8 digits to the base 64 │ text from a hash of all four
 *
 * The alphabet is '0' … 'o' with 'p' in place of the backslash: printable, nothing to
 * quote or to escape anywhere, six bits a character. A field shorter than its version has
 * the last characters of that, which tell one writing from the next, and only its length can
 * be checked.
 */
#pragma once

#include "params.h"

/*
 * Which fields were updated, in as little room whatever their number: a sample of them that
 * is the same for the same fields. Each field falls by its hash into one of 2048 groups, of
 * which the highest hash is kept. Whoever has seen all those fields, and others perhaps, has
 * no group with a lower one: where one is lower, a field is missing.
 */
enum { YCSB_UPDATED_GROUPS = 2048 };

struct lg_ycsb_updated {
    int64_t highest[YCSB_UPDATED_GROUPS]; /* 0: none */
};

/* `key_hash` is lg_ycsb_key_hash's. */
void lg_ycsb_updated_add(struct lg_ycsb_updated *updated, uint64_t key_hash, int field);
void lg_ycsb_updated_merge(struct lg_ycsb_updated *to, const struct lg_ycsb_updated *from);
/* An array of all groups. */
json_t *lg_ycsb_updated_json(const struct lg_ycsb_updated *updated);

/*
 * The version of the n-th writing of a run. What last wrote a field can be recognised by the last
 * digit to the base 64 alone, all that a field of one character has: 0 is loaded, an odd one
 * inserted, an even one updated.
 */
static inline uint64_t lg_ycsb_inserted_version(uint64_t n)
{
    return 2 * n + 1;
}

static inline uint64_t lg_ycsb_updated_version(uint64_t n)
{
    return n / 31 * 64 + (n % 31 + 1) * 2;
}

static inline bool lg_ycsb_is_updated(uint64_t version)
{
    return (version & 63) != 0 && (version & 1) == 0;
}

enum {
    YCSB_VERSION_BYTES = 8,
    /* A writer of values runs over their end by so much at most. */
    YCSB_VALUE_SLACK = 16,
};

/* The version of what was loaded; above are those of what is written after that. */
#define YCSB_LOADED 0

struct lg_ycsb_values {
    const struct lg_ycsb_params *params;
    bool key_value; /* the engine's rows are a key and a record */
    uint64_t seed;
    struct tb_zipfian lengths;
    struct {
        char name[8]; /* "field12" */
        size_t length;
    } names[YCSB_MAX_FIELDS];
};

/* One writing of one record. */
struct lg_ycsb_stamp {
    uint64_t key; /* hash of the key's text */
    uint64_t version;
    char text[YCSB_VERSION_BYTES];
};

void lg_ycsb_values_open(struct lg_ycsb_values *values, const struct lg_ycsb_params *params);
uint64_t lg_ycsb_key_hash(const struct lg_ycsb_values *values, const char *key, size_t length);
struct lg_ycsb_stamp lg_ycsb_stamp(uint64_t key_hash, uint64_t version);

/* Writes the value and up to YCSB_VALUE_SLACK bytes after it; its length. */
size_t lg_ycsb_value(const struct lg_ycsb_values *values, const struct lg_ycsb_stamp *stamp,
                     int field, char *to);
/*
 * Whether it was written at any time as this field of this key; `version`: which time, of a
 * short one the low digits.
 */
bool lg_ycsb_value_fits(const struct lg_ycsb_values *values, uint64_t key_hash, int field,
                        const char *text, size_t length, uint64_t *version);

/* The longest record of a key-value engine, with what its writer runs over. */
size_t lg_ycsb_record_bytes(const struct lg_ycsb_params *params);
/* Fields first … last of a record or of a change (record.h), one after the other; its length. */
size_t lg_ycsb_record(const struct lg_ycsb_values *values, const struct lg_ycsb_stamp *stamp,
                      int first, int last, char *to);

/*
 * Checks a whole record, or one field of it. NULL where it is as it was written, else what
 * is wrong, in words. Cells of the fields in their order (`one`: of that one alone, -1: all); of a
 * key-value engine one cell with the record.
 * `seen`, where it is given, takes the fields whose last writing was an update.
 */
struct lg_ycsb_seen {
    int64_t count;
    struct lg_ycsb_updated *updated;
};

const char *lg_ycsb_check(const struct lg_ycsb_values *values, uint64_t key_hash,
                          const struct lg_cell *cells, size_t count, int one,
                          struct lg_ycsb_seen *seen);
/* A record of a key-value engine; its fields may come in any order. */
const char *lg_ycsb_check_record(const struct lg_ycsb_values *values, uint64_t key_hash,
                                 const char *record, size_t length,
                                 struct lg_ycsb_seen *seen);

/* Order of keys: by their bytes; one that another one begins with comes first. */
int lg_ycsb_compare(const char *a, size_t a_length, const char *b, size_t b_length);

/*
 * Which fields were updated, in as little room whatever their number: a sample of them that
 * is the same for the same fields. Each field falls by its hash into one of 2048 groups, of
 * which the highest hash is kept. Whoever has seen all those fields, and others perhaps, has
 * no group with a lower one: where one is lower, a field is missing.
 */
#ifndef LOADGEN_YCSB_UPDATED_H
#define LOADGEN_YCSB_UPDATED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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

#endif

/* What is learned of an index after it was measured. */
#pragma once

#include "index.h"

/* What a value says of its key, so that a wrong one is found; `writes`: which of its values. */
uint64_t mb_value_of(uint64_t key, uint64_t writes);
/* Is the key there, with a value that was written for it? */
bool mb_finds(const struct mb_index_kind *kind, const struct mb_index *index, uint64_t key);

/*
 * Does each of `threads` threads that share an index find, and in the end, every update of its own
 * keys, while the others update theirs? `keys`: `each` of the first thread, then of the next.
 */
bool mb_keeps_updates(const struct mb_index_kind *kind, struct mb_index *index,
                      const uint64_t *keys, uint32_t threads, uint64_t each);

/* Flushes, fences, and flushes of a line in which nothing was stored since its last one. */
struct mb_flush_counts {
    uint64_t flushes, fences, redundant;
};
/* The policy with a medium that counts from now on, into `counts`: one thread at a time. */
struct mb_policy mb_counting(const struct mb_policy *policy, struct mb_flush_counts *counts);

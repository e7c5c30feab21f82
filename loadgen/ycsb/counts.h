/*
 * How often which key was drawn, where params.count_keys asks for the hottest. Each
 * terminal counts for itself, in a table of 49,152 keys at most: when it is full, keys that
 * are not in it yet are no longer counted, and hot ones came long before.
 * Of a terminal's first hundred thousand draws all are counted, after them each with the
 * chance 1/16: not every 16th, which a distribution in turn would fall in step with.
 */
#ifndef LOADGEN_YCSB_COUNTS_H
#define LOADGEN_YCSB_COUNTS_H

#include <stddef.h>
#include <stdint.h>

struct lg_ycsb_counts {
    struct lg_ycsb_count {
        int64_t key; /* number (keys.h: or distance) + 1; 0: free */
        uint64_t times;
    } *places;
    size_t capacity, used; /* a power of two */
    uint64_t drawn, draws; /* in all; of these, looked at */
    uint64_t chance;       /* state of a linear congruential generator */
};

struct lg_ycsb_counts *lg_ycsb_counts_new(void);
void lg_ycsb_counts_free(struct lg_ycsb_counts *counts);
/* Counts this one. */
void lg_ycsb_counts_add(struct lg_ycsb_counts *counts, int64_t number);

enum { YCSB_COUNTED_ALL = 100000, YCSB_COUNTED_BITS = 4 };

/* Counts this one, if it is among those that are. */
static inline void lg_ycsb_counts_sample(struct lg_ycsb_counts *counts, int64_t number)
{
    counts->chance = counts->chance * UINT64_C(6364136223846793005) +
                     UINT64_C(1442695040888963407);
    if (counts->drawn++ < YCSB_COUNTED_ALL || counts->chance >> (64 - YCSB_COUNTED_BITS) == 0)
        lg_ycsb_counts_add(counts, number);
}

/*
 * The `most` keys drawn most often by all of them, the first the most; returns how many
 * there are. `hottest` has room for `most`; its keys are the numbers themselves.
 */
size_t lg_ycsb_hottest(struct lg_ycsb_counts *const *counts, size_t terminals,
                       struct lg_ycsb_count *hottest, size_t most);

#endif

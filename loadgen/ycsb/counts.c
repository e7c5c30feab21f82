/* See counts.h: open addressing, three quarters full at most. */
#include "counts.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1 << 10, LAST_CAPACITY = 1 << 16 };

struct lg_ycsb_counts *lg_ycsb_counts_new(void)
{
    struct lg_ycsb_counts *counts = tb_allocate(1, sizeof *counts);

    counts->capacity = FIRST_CAPACITY;
    counts->places = tb_allocate(counts->capacity, sizeof *counts->places);
    return counts;
}

void lg_ycsb_counts_free(struct lg_ycsb_counts *counts)
{
    free(counts->places);
    free(counts);
}

static struct lg_ycsb_count *place_of(const struct lg_ycsb_counts *counts, int64_t key)
{
    size_t at = (size_t)(((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

    for (;; at++) {
        struct lg_ycsb_count *place = &counts->places[at & (counts->capacity - 1)];

        if (place->key == key || place->key == 0)
            return place;
    }
}

static void grow(struct lg_ycsb_counts *counts)
{
    struct lg_ycsb_count *old = counts->places;
    size_t capacity = counts->capacity;

    counts->capacity *= 2;
    counts->places = tb_allocate(counts->capacity, sizeof *counts->places);
    for (size_t i = 0; i < capacity; i++)
        if (old[i].key)
            *place_of(counts, old[i].key) = old[i];
    free(old);
}

void lg_ycsb_counts_add(struct lg_ycsb_counts *counts, int64_t number)
{
    struct lg_ycsb_count *place;

    counts->draws++;
    place = place_of(counts, number + 1);
    if (place->key) {
        place->times++;
        return;
    }
    if (counts->used == counts->capacity / 4 * 3) {
        if (counts->capacity == LAST_CAPACITY)
            return;
        grow(counts);
        place = place_of(counts, number + 1);
    }
    *place = (struct lg_ycsb_count){number + 1, 1};
    counts->used++;
}

static int by_key(const void *a, const void *b)
{
    const struct lg_ycsb_count *one = a, *other = b;

    return (one->key > other->key) - (one->key < other->key);
}

static int by_times(const void *a, const void *b)
{
    const struct lg_ycsb_count *one = a, *other = b;
    int order = (one->times < other->times) - (one->times > other->times);

    return order ? order : by_key(a, b);
}

size_t lg_ycsb_hottest(struct lg_ycsb_counts *const *counts, size_t terminals,
                       struct lg_ycsb_count *hottest, size_t most)
{
    size_t all = 0, keys = 0, at = 0;

    for (size_t t = 0; t < terminals; t++)
        all += counts[t]->used;

    struct lg_ycsb_count *every = tb_allocate(all, sizeof *every);

    for (size_t t = 0; t < terminals; t++)
        for (size_t i = 0; i < counts[t]->capacity; i++)
            if (counts[t]->places[i].key)
                every[at++] = counts[t]->places[i];
    qsort(every, all, sizeof *every, by_key);
    for (size_t i = 0; i < all; i++) { /* one place for each key */
        if (keys > 0 && every[keys - 1].key == every[i].key)
            every[keys - 1].times += every[i].times;
        else
            every[keys++] = every[i];
    }
    qsort(every, keys, sizeof *every, by_times);
    keys = keys < most ? keys : most;
    for (size_t i = 0; i < keys; i++)
        hottest[i] = (struct lg_ycsb_count){every[i].key - 1, every[i].times};
    free(every);
    return keys;
}

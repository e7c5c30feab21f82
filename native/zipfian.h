/*
 * The random distributions of the official YCSB core (0.17.0): the same formulas and
 * constants, so that the same items are as popular. `u` is uniform in [0, 1).
 */
#ifndef NATIVE_ZIPFIAN_H
#define NATIVE_ZIPFIAN_H

#include <stdint.h>

/* FNV over the eight octets of a number, as Utils.fnvhash64: without its sign. */
uint64_t tb_fnv(uint64_t value);

/* The sum of i^-0.99 over i = first … last; as exact as adding them up one by one. */
double tb_zeta(int64_t first, int64_t last);

/* ZipfianGenerator: items base … base + items - 1, the first the most popular. */
struct tb_zipfian {
    int64_t base, items;
    int64_t counted; /* items that `zetan` is over */
    double zetan, eta;
};

void tb_zipfian_open(struct tb_zipfian *zipfian, int64_t least, int64_t most);
/* ScrambledZipfianGenerator's: over 10^10 items, whatever their number. */
void tb_zipfian_open_scrambled(struct tb_zipfian *zipfian);
/* More items than it was opened for; with fewer it goes on counting what it has counted. */
void tb_zipfian_grow(struct tb_zipfian *zipfian, int64_t items);
int64_t tb_zipfian_at(const struct tb_zipfian *zipfian, int64_t items, double u);

#endif

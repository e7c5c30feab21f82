/* Which record is requested next, and what its key is. */
#ifndef LOADGEN_YCSB_KEYS_H
#define LOADGEN_YCSB_KEYS_H

#include "zipfian.h"
#include "inserts.h"
#include "params.h"

struct lg_ycsb_keys {
    const struct lg_ycsb_params *params;
    struct lg_ycsb_inserts *inserts;
    struct tb_zipfian requests, scans;
    int64_t hot, cold; /* items of the hot spot and of the others */
    double gamma;      /* of the exponential distribution */
    uint64_t room, room_inverse; /* of the zipfian key space; 2^64 / room */
    atomic_uint_fast64_t sequence;
};

/* A terminal's own: zeta grows with the inserts it has seen. */
struct lg_ycsb_chooser {
    struct tb_zipfian latest;
};

void lg_ycsb_keys_open(struct lg_ycsb_keys *keys, const struct lg_ycsb_params *params,
                       struct lg_ycsb_inserts *inserts);
void lg_ycsb_chooser_open(struct lg_ycsb_chooser *chooser, const struct lg_ycsb_keys *keys);

/* The number of a record that is there: CoreWorkload.nextKeynum. */
int64_t lg_ycsb_choose(struct lg_ycsb_keys *keys, struct lg_ycsb_chooser *chooser,
                       struct tb_random *random);
int64_t lg_ycsb_scan_length(const struct lg_ycsb_keys *keys, struct tb_random *random);

/* "user" and the number or its hash, padded: writes it, no more than YCSB_KEY_BYTES; its length. */
size_t lg_ycsb_key(const struct lg_ycsb_params *params, int64_t number, char *key);

/* Uniform in [0, 1), as Java's nextDouble. */
static inline double lg_ycsb_uniform(struct tb_random *random)
{
    return 1.0 - tb_random_fraction(random);
}

#endif

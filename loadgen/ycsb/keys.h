/* Which record is requested next, and what its key is. */
#pragma once

#include "params.h"

/*
 * Which keys have been inserted, for all terminals of all client processes: the official
 * AcknowledgedCounterGenerator. A key counts from when it and all before it are there.
 * The window: how far an insert may be ahead of one that is not acknowledged yet.
 */
enum { YCSB_INSERT_WINDOW = 1 << 20 };

/* Numbers count from 0. All zeros at the beginning, in memory or in a file that is shared. */
struct lg_ycsb_inserts {
    _Alignas(64) atomic_uint_fast64_t begun;
    _Alignas(64) atomic_uint_fast64_t acknowledged; /* without a gap */
    _Alignas(64) atomic_flag moving;
    _Alignas(64) atomic_uchar window[YCSB_INSERT_WINDOW];
};

/* `shared`: a file that the processes have in common, NULL for this process alone. */
struct lg_ycsb_inserts *lg_ycsb_inserts_open(const char *shared, struct tb_error *error);
void lg_ycsb_inserts_close(struct lg_ycsb_inserts *inserts);

static inline int64_t lg_ycsb_inserts_begin(struct lg_ycsb_inserts *inserts)
{
    return (int64_t)atomic_fetch_add_explicit(&inserts->begun, 1, memory_order_relaxed);
}

/* False where too many others are not acknowledged. */
bool lg_ycsb_inserts_acknowledge(struct lg_ycsb_inserts *inserts, int64_t number);

static inline int64_t lg_ycsb_inserts_done(const struct lg_ycsb_inserts *inserts)
{
    return (int64_t)atomic_load_explicit(&inserts->acknowledged, memory_order_acquire);
}

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

/*
 * Which keys have been inserted, for all terminals of all client processes: the official
 * AcknowledgedCounterGenerator. A key counts from when it and all before it are there.
 */
#ifndef LOADGEN_YCSB_INSERTS_H
#define LOADGEN_YCSB_INSERTS_H

#include "../backend.h"

#include <stdatomic.h>

/* How far an insert may be ahead of one that is not acknowledged yet. */
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

#endif

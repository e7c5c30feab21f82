/* What peers.c asks of the loops of others. */
#ifndef BENCHMARKS_PEER_H
#define BENCHMARKS_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peer_access { PEER_READ, PEER_NONE, PEER_CACHE, PEER_CACHEINV, PEER_NOCACHE };

/* PerMA-Bench: a batch of accesses at these addresses, as its own threads run them. */
void *perma_batch_new(char *const *addresses, size_t count, uint32_t access_bytes,
                      enum peer_access access);
void perma_batch_run(void *batch);
void perma_batch_free(void *batch);

/* The bare loop's thread: so many accesses more, of one partition. */
struct refbench_thread {
    char *base;
    uint64_t bytes, access_bytes, at, random;
    enum peer_access access;
    int sequential;
};
void refbench_run(struct refbench_thread *thread, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif

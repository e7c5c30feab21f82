/* The bare loop's own accesses and random numbers; its threads' order of addresses. */
#define main refbench_main
#include REFBENCH_SOURCE
#undef main

#include "peer.h"

static int kind_of(const struct refbench_thread *thread)
{
    static const int sequential[] = {[PEER_READ] = SRD, [PEER_NONE] = SST, [PEER_CACHE] = SCLWB,
                                     [PEER_CACHEINV] = SCLFO, [PEER_NOCACHE] = SNT};
    static const int random[] = {[PEER_READ] = RRD, [PEER_NONE] = RST, [PEER_CACHE] = RCLWB,
                                 [PEER_CACHEINV] = RCLFO, [PEER_NOCACHE] = RNT};
    return thread->sequential ? sequential[thread->access] : random[thread->access];
}

void refbench_run(struct refbench_thread *thread, uint64_t count)
{
    KIND = kind_of(thread); /* globals, as in its own loop: the compiler may not know them */
    ACC = thread->access_bytes;
    __m512i value = _mm512_set1_epi64(0x1234);
    uint64_t slots = thread->bytes / ACC;
    if (thread->sequential) {
        if (thread->at + count * ACC > thread->bytes)
            thread->at = 0;
        char *base = thread->base + thread->at;
        for (size_t i = 0; i < count; i++)
            op(KIND, base + i * ACC, ACC, value);
        thread->at += count * ACC;
    } else {
        for (size_t i = 0; i < count; i++) {
            size_t slot = ((__uint128_t)rng(&thread->random) * slots) >> 64;
            op(KIND, thread->base + slot * ACC, ACC, value);
        }
    }
    _mm_sfence();
}

/* io_uring: the two rings that are shared with the kernel, and the calls on them. */
#include "io_ring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void *map(const struct mb_ring *ring, size_t bytes, off_t which)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
                        which);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static _Atomic unsigned *counter(const struct mb_ring *ring, uint32_t offset)
{
    return (_Atomic unsigned *)(void *)(ring->rings + offset);
}

static bool give_up(struct mb_ring *ring, int reason)
{
    mb_ring_close(ring);
    errno = reason;
    return false;
}

/*
 * Results are delivered when their thread enters the kernel: otherwise each interrupts it, which
 * costs more than the request where the device answers within microseconds.
 */
static int set_up(unsigned depth, struct io_uring_params *params)
{
    params->flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER |
                    IORING_SETUP_DEFER_TASKRUN;
    long fd = syscall(SYS_io_uring_setup, depth, params);
    if (fd >= 0 || errno != EINVAL)
        return (int)fd;
    *params = (struct io_uring_params){0}; /* before Linux 6.1 */
    return (int)syscall(SYS_io_uring_setup, depth, params);
}

bool mb_ring_open(struct mb_ring *ring, unsigned depth)
{
    struct io_uring_params params = {0};
    *ring = (struct mb_ring){.fd = set_up(depth, &params)};
    if (ring->fd < 0)
        return false;
    if (!(params.features & IORING_FEAT_SINGLE_MMAP)) /* before Linux 5.4 */
        return give_up(ring, ENOSYS);
    size_t submits = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t results = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_bytes = submits > results ? submits : results;
    ring->requests_bytes = params.sq_entries * sizeof(struct io_uring_sqe);
    ring->rings = map(ring, ring->rings_bytes, IORING_OFF_SQ_RING);
    ring->requests = ring->rings ? map(ring, ring->requests_bytes, IORING_OFF_SQES) : NULL;
    if (!ring->requests)
        return give_up(ring, errno);
    ring->indices = (unsigned *)(void *)(ring->rings + params.sq_off.array);
    ring->submit_tail = counter(ring, params.sq_off.tail);
    ring->done_head = counter(ring, params.cq_off.head);
    ring->done_tail = counter(ring, params.cq_off.tail);
    ring->submit_mask = params.sq_entries - 1;
    ring->done_mask = params.cq_entries - 1;
    ring->done = (const struct io_uring_cqe *)(void *)(ring->rings + params.cq_off.cqes);
    return true;
}

void mb_ring_close(struct mb_ring *ring)
{
    if (ring->requests)
        munmap(ring->requests, ring->requests_bytes);
    if (ring->rings)
        munmap(ring->rings, ring->rings_bytes);
    if (ring->fd >= 0)
        close(ring->fd);
    *ring = (struct mb_ring){.fd = -1};
}

void mb_ring_queue(struct mb_ring *ring, const struct mb_request *request)
{
    unsigned tail = atomic_load_explicit(ring->submit_tail, memory_order_relaxed);
    unsigned index = tail & ring->submit_mask;
    ring->requests[index] = (struct io_uring_sqe){
        .opcode = request->write ? IORING_OP_WRITE : IORING_OP_READ,
        .fd = request->fd,
        .addr = (uint64_t)(uintptr_t)request->buffer,
        .len = request->bytes,
        .off = request->offset,
        .user_data = request->id,
    };
    ring->indices[index] = index;
    atomic_store_explicit(ring->submit_tail, tail + 1, memory_order_release);
    ring->queued++;
}

bool mb_ring_submit(struct mb_ring *ring, unsigned least)
{
    do {
        long taken = syscall(SYS_io_uring_enter, ring->fd, ring->queued, least,
                             IORING_ENTER_GETEVENTS, NULL, 0);
        if (taken < 0 && errno != EINTR)
            return false;
        ring->queued -= taken > 0 ? (unsigned)taken : 0;
    } while (ring->queued > 0);
    return true;
}

bool mb_ring_take(struct mb_ring *ring, uint64_t *id, int *result)
{
    unsigned head = atomic_load_explicit(ring->done_head, memory_order_relaxed);
    if (head == atomic_load_explicit(ring->done_tail, memory_order_acquire))
        return false;
    *id = ring->done[head & ring->done_mask].user_data;
    *result = ring->done[head & ring->done_mask].res;
    atomic_store_explicit(ring->done_head, head + 1, memory_order_release);
    return true;
}

/*
 * A ring of io_uring by its system calls: requests of one thread that are under way at the same
 * time. No library is needed; Linux 5.6 and later has these operations.
 */
#pragma once

#include "native.h"

struct io_uring_sqe;
struct io_uring_cqe;

struct mb_ring {
    int fd;
    unsigned queued; /* requests that the next submit hands over */
    char *rings;
    size_t rings_bytes, requests_bytes;
    struct io_uring_sqe *requests;
    unsigned *indices;
    _Atomic unsigned *submit_tail, *done_head, *done_tail;
    unsigned submit_mask, done_mask;
    const struct io_uring_cqe *done;
};

struct mb_request {
    bool write;
    int fd;
    char *buffer;
    uint32_t bytes;
    uint64_t offset;
    uint64_t id; /* comes back with the result */
};

/*
 * Room for `depth` requests, all made by the calling thread; false with errno where Linux refuses
 * (ENOSYS, EPERM).
 */
bool mb_ring_open(struct mb_ring *ring, unsigned depth);
/* Of a ring whose requests are all done. */
void mb_ring_close(struct mb_ring *ring);
/* At most `depth` requests are queued or under way. */
void mb_ring_queue(struct mb_ring *ring, const struct mb_request *request);
/*
 * Hand over what is queued, and wait until so many results are there; false with errno. Results
 * arrive only during this call.
 */
bool mb_ring_submit(struct mb_ring *ring, unsigned least);
/* The next result, bytes or a negative errno; false where none is there. */
bool mb_ring_take(struct mb_ring *ring, uint64_t *id, int *result);

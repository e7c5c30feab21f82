// Asynchronous I/O, counted when it is submitted: Linux AIO (libaio) and io_uring (liburing).
//
// A planted delay does not reach it. Linux AIO has durations, and a known number of calls under
// way, where io_getevents delivers the end: libaio's, or the system call through libc's syscall().
// Of io_uring, whose completions are read from shared memory, both are unknown.
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <sys/uio.h>
#include <time.h>

#include "iotrace.h"

// What is under way, by the address of its control block: a few places for each hash.
#define PLACES 8192
#define PROBES 16
static struct pending {
  uint64_t block; // 0: free
  uint64_t start_ns;
  uint8_t role, part, operation;
} pending[PLACES];

struct request {
  enum operation operation;
  bool counted;
  bool vector;
};

static const struct request aio_requests[] = {
    [IOCB_CMD_PREAD] = {READ, true, false},   [IOCB_CMD_PREADV] = {READ, true, true},
    [IOCB_CMD_PWRITE] = {WRITE, true, false}, [IOCB_CMD_PWRITEV] = {WRITE, true, true},
    [IOCB_CMD_FSYNC] = {SYNC, true, false},   [IOCB_CMD_FDSYNC] = {SYNC, true, false},
};
static const struct request uring_requests[] = {
    [IORING_OP_READ] = {READ, true, false},   [IORING_OP_READ_FIXED] = {READ, true, false},
    [IORING_OP_READV] = {READ, true, true},   [IORING_OP_WRITE] = {WRITE, true, false},
    [IORING_OP_WRITEV] = {WRITE, true, true}, [IORING_OP_WRITE_FIXED] = {WRITE, true, false},
    [IORING_OP_FSYNC] = {SYNC, true, false},
};
static struct request find(const struct request *requests, size_t count, size_t opcode) {
  return opcode < count ? requests[opcode] : (struct request){.counted = false};
}
#define REQUEST(requests, opcode) find(requests, sizeof(requests) / sizeof *(requests), opcode)

static uint64_t bytes_of(struct request request, uint64_t address, uint64_t size) {
  if (request.operation == SYNC || !request.vector) {
    return request.operation == SYNC ? 0 : size;
  }
  const struct iovec *vector = (const struct iovec *)(uintptr_t)address;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < size; i++) {
    bytes += vector[i].iov_len;
  }
  return bytes;
}

static struct pending *probe(uint64_t block, uint64_t wanted) {
  size_t first = (size_t)((block >> 3) * 0x9e3779b97f4a7c15ULL >> 51);
  for (size_t i = 0; i < PROBES; i++) {
    struct pending *place = &pending[(first + i) % PLACES];
    if (__atomic_load_n(&place->block, __ATOMIC_ACQUIRE) == wanted) {
      return place;
    }
  }
  return NULL;
}

// What io_submit is given. A block is the kernel's, and soon another thread's, once it is submitted.
struct submitted {
  uint64_t block;
  struct file file;
  struct request request;
  int descriptor;
  off_t offset;
  uint64_t bytes;
  uint64_t queued;
};
#define MOST_SUBMITTED 256 // of one call; more are not counted

// Submitted calls under way that are in `pending`.
static uint64_t under_way[PARTS][OPERATIONS];
// Whether a block was submitted again that is in `pending`: its completion was not seen.
static bool missed;

static bool ended(uint64_t block, struct pending *found) {
  struct pending *place = probe(block, block);
  if (place == NULL) {
    return false;
  }
  *found = *place;
  __atomic_fetch_sub(&under_way[found->part][found->operation], 1, __ATOMIC_RELAXED);
  __atomic_store_n(&place->block, 0, __ATOMIC_RELEASE);
  return true;
}

static struct submitted began(const struct iocb *block) {
  struct submitted it = {.block = (uint64_t)(uintptr_t)block,
                         .descriptor = (int)block->aio_fildes,
                         .queued = QUEUE_UNKNOWN};
  it.request = REQUEST(aio_requests, block->aio_lio_opcode);
  if (!it.request.counted) {
    return it;
  }
  it.file = file_of(it.descriptor);
  it.offset = block->aio_offset;
  it.bytes = bytes_of(it.request, block->aio_buf, block->aio_nbytes);
  if (it.request.operation == WRITE && it.file.part != OTHER) {
    look_at_end(it.descriptor, it.offset);
  }
  uint64_t none = 0;
  struct pending *place = NULL, unused;
  if (it.file.part != OTHER) {
    if (ended(it.block, &unused)) {
      __atomic_store_n(&missed, true, __ATOMIC_RELAXED);
    }
    place = probe(it.block, 0);
  }
  // Claimed with an id that no block has, so that nothing reads it half written.
  if (place != NULL && __atomic_compare_exchange_n(&place->block, &none, 1, false,
                                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    uint64_t others = __atomic_fetch_add(&under_way[it.file.part][it.request.operation], 1,
                                         __ATOMIC_RELAXED);
    it.queued = __atomic_load_n(&missed, __ATOMIC_RELAXED) ? QUEUE_UNKNOWN : others;
    place->start_ns = now_ns();
    place->role = (uint8_t)present_role();
    place->part = (uint8_t)it.file.part;
    place->operation = (uint8_t)it.request.operation;
    __atomic_store_n(&place->block, it.block, __ATOMIC_RELEASE);
  }
  return it;
}

struct io_context;
EXPORTED int io_submit(struct io_context *context, long count, struct iocb **blocks);
EXPORTED int io_submit(struct io_context *context, long count, struct iocb **blocks) {
  struct submitted all[MOST_SUBMITTED];
  long known = page == NULL ? 0 : count < MOST_SUBMITTED ? count : MOST_SUBMITTED;
  for (long i = 0; i < known; i++) {
    all[i] = began(blocks[i]);
  }
  long submitted = syscall(SYS_io_submit, context, count, blocks);
  int error = errno;
  for (long i = 0; i < known; i++) {
    const struct submitted *it = &all[i];
    struct pending unused;
    if (i >= submitted) {
      ended(it->block, &unused);
    } else if (it->request.counted) {
      count_submitted(&it->file, it->descriptor, it->request.operation, it->offset, it->bytes,
                      it->queued);
    }
  }
  errno = error;
  return submitted < 0 ? -error : (int)submitted; // as libaio returns it
}

static void count_events(const struct io_event *events, long count) {
  int error = errno;
  for (long i = 0; page != NULL && i < count; i++) {
    struct pending found;
    if (ended(events[i].obj, &found)) {
      count_completed(found.role, found.part, found.operation, found.start_ns,
                      (int64_t)events[i].res < 0);
    }
  }
  errno = error;
}

// MariaDB waits for the end of its calls with it, since libaio's function fails where another
// thread destroys the context. The other calls of this library pass through it, too.
EXPORTED long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (next == NULL) {
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  }
  long arguments[6]; // as libc does, it passes on six, whatever the number of those that exist
  va_list all;
  va_start(all, number);
  for (int i = 0; i < 6; i++) {
    arguments[i] = va_arg(all, long);
  }
  va_end(all);
  long result = next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                     arguments[5]);
  if (number == SYS_io_getevents) {
    count_events((const struct io_event *)arguments[3], result);
  }
  return result;
}

EXPORTED int io_getevents(struct io_context *context, long least, long most,
                          struct io_event *events, struct timespec *timeout);
EXPORTED int io_getevents(struct io_context *context, long least, long most,
                          struct io_event *events, struct timespec *timeout) {
  int before = errno;
  long got = syscall(SYS_io_getevents, context, least, most, events, timeout); // counts them
  int error = errno;
  errno = before;
  return got < 0 ? -error : (int)got;
}

// The beginning of liburing's struct io_uring; the same in every 2.x.
struct uring {
  void *kernel[7];
  struct io_uring_sqe *entries;
  unsigned head, tail; // prepared and not yet submitted
  size_t ring_bytes;
  void *ring;
  unsigned mask;
  unsigned unused[3];
  void *completions[11]; // nine words and four halves
  unsigned flags;
};

static void count_entries(const struct uring *ring) {
  unsigned wide = ring->flags & IORING_SETUP_SQE128 ? 1 : 0;
  unsigned mask = *(unsigned *)ring->kernel[2];
  for (unsigned i = ring->head; page != NULL && i != ring->tail; i++) {
    const struct io_uring_sqe *entry = &ring->entries[(i & mask) << wide];
    struct request request = REQUEST(uring_requests, entry->opcode);
    if (request.counted) {
      // A registered file is known by its index in a table: it is counted, outside of the parts.
      bool registered = entry->flags & IOSQE_FIXED_FILE;
      struct file file = file_of(registered ? -1 : entry->fd);
      uint64_t bytes = bytes_of(request, entry->addr, entry->len);
      count_submitted(&file, entry->fd, request.operation, (off_t)entry->off, bytes,
                      QUEUE_UNKNOWN);
    }
  }
}

#define URING(name, parameters, ...)                              \
  EXPORTED int name parameters;                                   \
  EXPORTED int name parameters {                                  \
    static int(*next) parameters;                                 \
    if (next == NULL) {                                           \
      next = (int(*) parameters)dlsym(RTLD_NEXT, #name);          \
    }                                                             \
    if (next == NULL) {                                           \
      return -ENOSYS;                                             \
    }                                                             \
    count_entries(ring);                                          \
    return next(__VA_ARGS__);                                     \
  }

struct io_uring_cqe;
URING(io_uring_submit, (struct uring *ring), ring)
URING(io_uring_submit_and_wait, (struct uring *ring, unsigned least), ring, least)
URING(io_uring_submit_and_get_events, (struct uring *ring), ring)
URING(io_uring_submit_and_wait_timeout,
      (struct uring *ring, struct io_uring_cqe **completion, unsigned least,
       struct __kernel_timespec *timeout, void *mask),
      ring, completion, least, timeout, mask)

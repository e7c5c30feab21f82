// The trace's shared page: written by the traced processes, read and given delays by the harness.
//
//   header   4 KiB: sizes, planted delays, mapped bytes
//   heads    one per slot: whose it is, and a cell of counters per role × part × operation
//   details  one per slot: a histogram and size classes per role × traced part × operation
//
// A slot belongs to one thread at a time. Its counters only grow, also when another thread takes
// the slot over: nothing is lost when threads end, and a reader subtracts two readings.
// harness/iotrace/page.py has the same layout; both check the sizes.
#ifndef IOTRACE_PAGE_H
#define IOTRACE_PAGE_H

#include <stdint.h>

#define PAGE_MAGIC 0x31435254424f4954ULL // "TIOBTRC1"
#define PAGE_VERSION 3
#define PAGE_SLOTS 1024
#define PAGE_NAME 16

enum role { FOREGROUND, BACKGROUND, ROLES };
// OTHER: files, pipes and sockets outside of all parts; only calls and bytes are counted.
enum part { DATA, WAL, TEMP, INDEX, OTHER, PARTS };
enum operation { READ, WRITE, SYNC, OPERATIONS };

struct delay {
  uint64_t ns;
  uint64_t jitter_ns; // uniform in ±
};

struct mapped {
  uint64_t calls;
  uint64_t bytes;          // of all mmap calls so far
  uint64_t writable_bytes; // of these, shared and writable
};

struct header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t slots;
  uint32_t head_bytes;
  uint32_t detail_bytes;
  uint32_t used; // slots below this number have been in use
  uint64_t page_bytes;
  uint64_t lost_calls; // of threads that found no slot
  struct mapped mapped[PARTS];
  uint64_t unused[11];
  struct delay delay[ROLES][OTHER][OPERATIONS]; // read at each call
};
_Static_assert(sizeof(struct header) == 256 + 384, "the reader knows this layout");

struct cell {
  uint64_t calls; // failed and submitted ones too
  uint64_t errors;
  uint64_t bytes; // of submitted calls: as requested
  uint64_t timed; // calls in ns and in the histogram: not failed, and with a known end
  uint64_t ns;    // of the calls alone, without planted delays
  uint64_t delayed;
  uint64_t delay_ns;   // as achieved
  uint64_t sequential; // began where the previous call on the descriptor ended
  uint64_t direct;     // O_DIRECT
  uint64_t durable;    // writes with O_SYNC, O_DSYNC or RWF_DSYNC
  uint64_t submitted;  // through io_submit or io_uring
  uint64_t submitted_bytes;
  uint64_t extending; // writes that ended beyond what was written of the file
  uint64_t datasync;  // syncs without metadata: fdatasync
  uint64_t queued;    // other submitted calls under way, summed over submissions
  uint64_t queued_squared; // the same, squared before it is summed
  uint64_t dirtied_bytes; // syncs: written through the descriptor since its last sync
};

struct head {
  uint32_t owner; // tid; 0: free
  uint32_t pid;
  uint32_t role; // now
  uint32_t unused;
  char name[PAGE_NAME];
  uint64_t pad[4];
  struct cell cells[ROLES][PARTS][OPERATIONS];
};

// An HdrHistogram of two significant digits from 64 ns to 68 s: 128 counters per doubling. Each
// value is the duration that the engine saw: the call and its planted delay.
#define HISTOGRAM_UNIT_BITS 6
#define HISTOGRAM_HALF_BITS 7
#define HISTOGRAM_MAX ((1ULL << 36) - 1)
#define HISTOGRAM_COUNTERS 3072
// Up to 512 bytes, up to 1 KiB … up to 8 MiB, more.
#define SIZE_CLASSES 16
#define SIZE_FIRST_BITS 9

struct distribution {
  uint64_t durations[HISTOGRAM_COUNTERS];
  uint64_t sizes[SIZE_CLASSES];
};

struct detail {
  struct distribution distributions[ROLES][OTHER][OPERATIONS];
};

#define PAGE_HEADER_BYTES 4096
#define PAGE_BYTES \
  (PAGE_HEADER_BYTES + PAGE_SLOTS * (uint64_t)(sizeof(struct head) + sizeof(struct detail)))

_Static_assert(sizeof(struct head) == 64 + 30 * 136, "the reader knows this layout");
_Static_assert(sizeof(struct detail) == 24 * 3088 * 8, "the reader knows this layout");

#endif

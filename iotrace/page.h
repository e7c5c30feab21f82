// The trace's shared page: written by the traced processes, read and given delays by the harness.
//
//   header   4 KiB: sizes, planted delays, mapped bytes
//   models   64 KiB: devices that are modelled, and the state of their queues
//   work     what Linux would do for modelled devices on each processor
//   heads    one per slot: whose it is, and a cell of counters per role × part × operation
//   details  one per slot: histograms and size classes per role × traced part × operation
//   files    counters of each file, by a hash of its device and inode
//   index    chunks of the modelled page cache by hash
//   chunks   pages of files in the modelled page cache
//
// A slot belongs to one thread at a time. Its counters only grow, also when another thread takes
// the slot over: nothing is lost when threads end, and a reader subtracts two readings.
// harness/iotrace/page.py has the same layout; both check the sizes.
#pragma once

#include <stdint.h>

#define PAGE_MAGIC 0x31435254424f4954ULL // "TIOBTRC1"
#define PAGE_VERSION 30
#define PAGE_SLOTS 1024
#define PAGE_NAME 16

enum role { FOREGROUND, BACKGROUND, ROLES };
// RELATIONS: tables and indexes that are placed one by one. OTHER: files, pipes and sockets outside of all parts; only calls and bytes are counted.
enum part { DATA, WAL, TEMP, INDEX, RELATIONS, OTHER, PARTS };
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
  uint64_t unused[8];
  struct delay delay[ROLES][OTHER][OPERATIONS]; // read at each call
};
_Static_assert(sizeof(struct header) == 256 + 480, "the reader knows this layout");

// Modelled devices ---------------------------------------------------------------
//
// Set before a process starts, and constant then, but for `state` and for `cache_pages`.

#define MODEL_POINTS 8
#define MODEL_QUANTILES 17
#define MODEL_SERVERS 64
#define MODEL_DEPTHS 7
#define MODEL_DEPTH_SIZES 4
#define MODEL_PAUSES 4
#define MODEL_BYTES 65536
#define SERVICES (OPERATIONS + 1)

// A distribution in ns: the quantile of each `probability` of the models (in 2^-32), and the mean
// between each two.
struct durations {
  uint64_t quantile[MODEL_QUANTILES];
  uint64_t mean[MODEL_QUANTILES - 1];
};

// Durations of one operation at depth 1, by size. Sizes ascend.
struct service {
  uint64_t points; // 0: no call of this operation waits
  uint64_t bytes[MODEL_POINTS];
  // For which a request takes the device from all others, of which it serves several at once; 0 of all
  // sizes: for what its bytes take of the bandwidth.
  uint64_t occupied_ns[MODEL_POINTS];
  struct durations ns[MODEL_POINTS];
};

// Whether files are buffered. An engine's durations contain the copying from the page cache.
enum page_cache { UNBUFFERED, BUFFERED, BUFFERED_AS_AN_ENGINE_SAW };

// By operation.
struct extra {
  uint64_t longer_ns[OPERATIONS];
  uint64_t processor_ns[OPERATIONS];
};

struct device {
  uint64_t servers;            // requests served at once, 1 to MODEL_SERVERS
  uint64_t separate;           // reads and writes have each their own servers and limit
  uint64_t in_order;           // each request waits for what all before it move
  uint64_t ps_per_byte[2];     // of the whole device: reads, writes; 0: no limit
  uint64_t burst_bytes[2];     // that a throttle lets pass at once, in each slice; 0: none
  uint64_t page_cache;         // enum page_cache
  uint64_t readahead_bytes;    // of sequential reads through the page cache
  uint64_t cache_pages;        // that may be resident; 0: no limit
  uint64_t background_pages;   // dirty pages above which write-back begins
  uint64_t throttle_pages;     // dirty pages above which a writer waits for it
  uint64_t expire_ns;          // age of dirty pages at which write-back takes them
  uint64_t fill_ns;            // processor time of a folio that is not cached, with its copying
  uint64_t sync_waits_of_100;  // for a processor, of 100 syncs with writes, where others want it
  // Of a device that completes writes in a buffer of burst_bytes: each time that so many bytes have
  // come together it programs them, which takes so long, and a sync waits for that. 0: no buffer.
  uint64_t program_bytes;
  uint64_t program_ns;
  // Of the kernel, for a request: what the base tier's call takes less is used, too. A sync whose
  // processor time is known is not passed on to the base tier.
  uint64_t processor_ns[OPERATIONS];
  // By how much a request takes longer, and its processor time, after the thread has worked; and after
  // pauses of so many nanoseconds, which ascend; 0: no more of them.
  struct extra after_work;
  uint64_t pause_ns[MODEL_PAUSES];
  struct extra after_pause[MODEL_PAUSES];
  // By how much a read takes longer where 1, 2, 4 … 64 requests are under way, itself included, by
  // size. Sizes ascend.
  uint64_t depth_sizes; // 0: none does
  uint64_t depth_bytes[MODEL_DEPTH_SIZES];
  uint64_t depth_longer_ns[MODEL_DEPTH_SIZES][MODEL_DEPTHS];
  // By how much a request takes longer, or is shorter, while calls are made on several processors.
  uint64_t elsewhere_ns[SERVICES];
  uint64_t shorter_elsewhere_ns[SERVICES];
  uint64_t inode_elsewhere_ns; // a sync that writes the file's inode
  // By how much a sync takes longer that writes the file's inode, and its processor time; 0: none does.
  uint64_t inode_longer_ns;
  uint64_t inode_processor_ns;
  // Processor time of a request outside of its thread, by service, and who uses it (enum urgency).
  uint64_t outside_ns[SERVICES];
  uint64_t outside_urgency;
  // Both processor times where other threads want the processor: these wake nobody who sleeps.
  uint64_t busy_processor_ns[OPERATIONS];
  uint64_t busy_outside_ns[SERVICES];
  // By enum operation, syncs by bytes that are dirty; the last: of syncs after writes beyond the
  // end of what was written of the file, which the file system has to note, too.
  struct service service[SERVICES];
};

// Virtual time: until when each server is taken, of separate directions those of writes second, and
// the bandwidth of each direction; since when a throttle's slices follow one another.
struct state {
  uint64_t free_at[2][MODEL_SERVERS];
  uint64_t transferred_at[2];
  uint64_t slices_from[2];
  uint64_t resident; // pages
  uint64_t dirty;
  uint64_t write_back_at; // no look at it before
  uint64_t write_back_hand;
  uint64_t eviction_hand;
  uint64_t buffered; // bytes that were written into the device's buffer so far
  uint64_t programmed_at;
  uint64_t processor; // which ran the last call, + 1; 0: none yet
  uint64_t several_until; // calls are taken to be made on several processors
  uint64_t ended_at; // the last call
};

struct models {
  uint64_t device_of[OTHER]; // index + 1; 0: the part's tier is not modelled
  uint64_t probability[MODEL_QUANTILES];
  struct device devices[OTHER];
  struct state state[OTHER];
  uint64_t chunks_used;
  uint64_t chunks_lost; // pages that found no chunk: they are never resident
};
_Static_assert(sizeof(struct service) == 2248, "the writer knows this layout");
_Static_assert(sizeof(struct device) == 110 * 8 + 4 * 2248, "the writer knows this layout");
_Static_assert(sizeof(struct state) == 142 * 8, "the harness clears it");
_Static_assert(sizeof(struct models) <= MODEL_BYTES, "models fit");

// Work outside of the calling threads ----------------------------------------------
//
// A call adds what Linux would use of the processors for its request, in interrupts and in threads of
// its own; the threads of the program kernel-work, one of each urgency for each processor, use it.

#define WORK_PROCESSORS 512
// URGENT: precedes whatever else runs on its processor, as interrupts and the threads of block devices'
// queues do. ORDINARY: waits for any processor, as a loop device's workers do.
// A read waits for none that syncs: ORDINARY_READS.
enum urgency { URGENT, ORDINARY, ORDINARY_READS, URGENCIES };

struct work {
  uint64_t requested_ns; // of all calls so far
  uint64_t done_ns;
  uint32_t present;   // a thread of the program is there
  uint32_t idle;      // futex: it sleeps until this is 0
  uint32_t awaited;   // a call waits for its work
  uint32_t completed; // futex: another number whenever awaited work may be done
  uint64_t requested_at; // what it does now, or did last
  uint64_t late_ns;      // by how much that took longer than its processor time
  uint64_t unused[2];    // a line of the processors' caches
};
_Static_assert(sizeof(struct work) == 64, "a line");

// 512 pages of 4 KiB of one file, which is known by a hash of its device and inode.
#define CHUNKS (1 << 18)
#define INDEX_SLOTS (1 << 19)
#define CHUNK_WORDS 8
#define CHUNK_PAGES (64 * CHUNK_WORDS)
#define CACHE_PAGE 4096ULL

struct chunk {
  uint64_t key; // of file and number
  uint64_t device;
  uint64_t dirtied_ns; // the first of its dirty pages
  uint64_t written_at; // when the device is done with what was last written back of it
  uint64_t unused[4];
  uint64_t resident[CHUNK_WORDS];
  uint64_t dirty[CHUNK_WORDS];
  uint64_t referenced[CHUNK_WORDS];
  uint64_t marked[CHUNK_WORDS]; // whose first reader reads ahead
};
_Static_assert(sizeof(struct chunk) == 320, "the layout");

// Counters -----------------------------------------------------------------------

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
  uint64_t queue_known; // submitted calls of which it is known how many others were under way
  uint64_t queued;      // these others, summed over such calls
  uint64_t dirtied_bytes; // syncs: written through the descriptor since its last sync
  uint64_t modelled;      // calls for which a duration was drawn
  uint64_t late_ns;       // by which the base tier alone took longer than these
  uint64_t cached;        // calls that the modelled page cache served; of probed ones, Linux's
  uint64_t probed;        // reads of no model that were tried with RWF_NOWAIT
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
  uint64_t due[HISTOGRAM_COUNTERS];      // of modelled calls: as drawn, with the device's queue
  uint64_t achieved[HISTOGRAM_COUNTERS]; // of the same calls
  uint64_t sizes[SIZE_CLASSES];
};

struct detail {
  struct distribution distributions[ROLES][OTHER][OPERATIONS];
};

// Counters of one file, added up by several threads: those of a shard are seldom at work at once.
#define FILES 4096
#define FILE_SHARDS 8

struct file_cell {
  uint64_t calls; // not failed; submitted ones too, of which neither ns
  uint64_t bytes;
  uint64_t ns; // as the engine saw it, with delays
};

struct file_counters {
  struct file_cell cells[FILE_SHARDS][ROLES][OPERATIONS];
  uint64_t written_at;   // on a modelled device, by the clock of files' times
  uint64_t inode_dirty;  // its time has changed since the last sync
  uint64_t unused[4]; // ends with a line of the processors' caches
};

struct files {
  uint64_t keys[FILES]; // hash of device and inode; 0: free
  struct file_counters counters[FILES];
};

#define PAGE_HEADER_BYTES 4096
#define WORK_AT (PAGE_HEADER_BYTES + MODEL_BYTES)
#define HEADS_AT (WORK_AT + URGENCIES * WORK_PROCESSORS * (uint64_t)sizeof(struct work))
#define DETAILS_AT (HEADS_AT + PAGE_SLOTS * (uint64_t)sizeof(struct head))
#define FILES_AT (DETAILS_AT + PAGE_SLOTS * (uint64_t)sizeof(struct detail))
#define INDEX_AT (FILES_AT + (uint64_t)sizeof(struct files))
#define CHUNKS_AT (INDEX_AT + INDEX_SLOTS * sizeof(uint32_t))
#define PAGE_BYTES (CHUNKS_AT + CHUNKS * (uint64_t)sizeof(struct chunk))

_Static_assert(sizeof(struct head) == 64 + 36 * 168, "the reader knows this layout");
_Static_assert(sizeof(struct detail) == 30 * (3 * 3072 + 16) * 8, "the reader knows this layout");
_Static_assert(sizeof(struct file_counters) == 48 + 48 * 24, "the reader knows this layout");

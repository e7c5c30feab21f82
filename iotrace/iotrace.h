// libiotrace.so: counts and delays the file I/O of the process that it is preloaded into, and
// places its memory.
//
//   TIERBENCH_IOTRACE_PAGE        number of the inherited descriptor of the shared page (page.h)
//   TIERBENCH_IOTRACE_PARTS       "data=/directory", one per line, symbolic links resolved
//   TIERBENCH_IOTRACE_BACKGROUND  "thread=PREFIX" or "title=PREFIX", one per line: threads, by
//                                 name or by the process's title, that serve no client
//   TIERBENCH_MEMORY              a memory policy (memory.c)
//
// Without a page, or with one of another layout, it passes calls on and counts nothing.
// The wrappers make raw system calls: they also work before any library's constructor has run.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "page.h"

#define EXPORTED __attribute__((visibility("default")))
#define AT_POSITION ((off_t)-1) // the offset of a call that has none

static inline void add(uint64_t *counter, uint64_t value) {
  // One thread writes a slot: no locked instruction is needed, only untorn values.
  __atomic_store_n(counter, *counter + value, __ATOMIC_RELAXED);
}

static inline void add_shared(uint64_t *counter, uint64_t value) {
  __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

uint64_t now_ns(void);
uint64_t clock_ns(clockid_t clock);
// The counters of a file; NULL where it is unknown, or the table is full.
struct file_counters *counters_of(uint64_t identity);

// environment.c
extern struct header *page; // NULL: nothing is counted
static inline void *in_page(uint64_t at) { return (char *)page + at; }
static inline struct models *models_of_page(void) { return in_page(PAGE_HEADER_BYTES); }
static inline struct work *work_of_page(void) { return in_page(WORK_AT); }
static inline struct head *heads_of_page(void) { return in_page(HEADS_AT); }
static inline struct detail *details_of_page(void) { return in_page(DETAILS_AT); }
static inline struct files *files_of_page(void) { return in_page(FILES_AT); }
static inline uint32_t *index_of_page(void) { return in_page(INDEX_AT); }
static inline struct chunk *chunks_of_page(void) { return in_page(CHUNKS_AT); }
enum part part_of_path(const char *path, uint64_t device);
bool is_background(const char *thread_name);

// slots.c
struct thread {
  struct head *head; // NULL: no slot yet
  struct detail *detail;
  enum role role;
  uint32_t calls;
  uint64_t random;
  uint64_t overdue_ns; // of its calls, on a device whose durations are those that an engine saw
  uint64_t wake_ns;    // by which a sleep typically ends late
  uint64_t rested_ns;  // processor time of the thread at the end of its last modelled call
  uint64_t excess_ns;  // processor time of its calls that was more than theirs on the device
  unsigned wanted;     // by others: its processor, in so many of its next calls
};
// The calling thread with its slot and its present role; NULL where no slot is free.
struct thread *this_thread(void);
void watch_threads(void);

// files.c
struct file {
  enum part part;
  bool direct;
  bool durable;
  bool appends;
};
struct file file_of(int descriptor);
// A hash of the file's device and inode; 0: unknown.
uint64_t identity_of(int descriptor);
uint64_t size_of(int descriptor);
struct stat;
// As identity_of().
uint64_t hash_of(const struct stat *facts);
// Where an access begins, before follows() and extends() take note of it.
uint64_t start_of(int descriptor, struct file file, off_t offset);
void forget(int descriptor);
void forget_range(unsigned first, unsigned last);
void set_flags(int descriptor, long flags); // as fcntl's F_SETFL
void moved(int descriptor, off_t position);
// Whether an access of `size` bytes begins where the previous one ended.
bool follows(int descriptor, off_t offset, uint64_t size);
// Before a write: learn the file's end where the write begins beyond the known one.
void look_at_end(int descriptor, off_t offset);
// After it, and before follows(): whether it wrote beyond the end.
bool extends(int descriptor, off_t offset, uint64_t size);
// Bytes written through the descriptor since its last sync. Counted, and taken by a sync.
void add_unsynced(int descriptor, uint64_t bytes);
uint64_t take_unsynced(int descriptor);
// Where writes through the descriptor were since its last sync: beyond the end, and there in space
// that fallocate() had reserved, of which a sync has only to note that it is written.
enum growth { NO_GROWTH, INTO_RESERVED, BEYOND_RESERVED };
enum growth take_growth(int descriptor);
void reserved(int descriptor, uint64_t end);

// memory.c: applies the memory policy to a mapping that was just made.
void place_mapping(void *start, size_t size, int flags);

// cache.c: the modelled page cache of one device.
struct pages {
  unsigned device;
  int descriptor;
  uint64_t file; // its identity
  uint64_t offset, bytes;
};
// Notes that resident pages of the range were used.
void cache_use(const struct pages *pages);
// Makes the range resident. Returns the bytes that were not.
uint64_t cache_fill(const struct pages *pages);
// Makes the clean pages of the range not resident.
void cache_drop(const struct pages *pages);
// The first page in [from, to) that is not resident; else `to`.
uint64_t cache_missing(const struct pages *pages, uint64_t from, uint64_t to);
// Marks the pages of the range, of which the first reader is to read ahead.
void cache_mark(const struct pages *pages);
// The first page in [from, to) that is marked, and is not any more; else `to`.
uint64_t cache_take_mark(const struct pages *pages, uint64_t from, uint64_t to);
// The number of resident pages directly before a page, at most `most`.
uint64_t cache_history(const struct pages *pages, uint64_t before, uint64_t most);
// Marks them dirty. Returns whether so many pages are dirty that the writer has to wait.
bool cache_write(const struct pages *pages, uint64_t now);
// Bytes of the range that were dirty, and are not any more. `*start` becomes the time at which the
// device is done with what is being written back of it, if that is later.
uint64_t cache_sync(const struct pages *pages, uint64_t *start);
// Notes when the device is done with what was written of the range.
void cache_note_write(const struct pages *pages, uint64_t end);
// Forgets the range, which no file has any more: nothing of it is written.
void cache_discard(const struct pages *pages);
// The dirty bytes of the next chunk that write-back takes, and the chunk; 0: none is due.
uint64_t cache_write_back(unsigned device, uint64_t now, struct chunk **taken);

// names.c
// openat() with O_TRUNC.
long open_truncating(int folder, const char *path, int flags, mode_t mode);

// readahead.c
struct thread;
// When the pages that a read at `now` needs are there, and the processor time of that, which with
// missing pages contains their copying.
struct arrival {
  uint64_t end_ns, filling_ns;
};
struct arrival read_through_cache(struct thread *thread, const struct pages *pages, uint64_t now);
// Reads the range in the background. Returns the processor time of allocating its pages.
uint64_t prefetch(struct thread *thread, const struct pages *pages, uint64_t now);
void forget_stream(int descriptor);
void advise_stream(int descriptor, bool random);

// model.c
static inline uint64_t later(uint64_t one, uint64_t other) { return one > other ? one : other; }
static inline uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }
// When the device is done with a read of so many bytes that it gets at `start`.
uint64_t device_read(struct thread *thread, unsigned device, uint64_t bytes, uint64_t start);
// Begins to write dirty pages of the range (0 bytes: to its end), as sync_file_range() does. Returns
// when the device is done; 0: no modelled page cache has the file.
uint64_t start_write_back(int descriptor, uint64_t offset, uint64_t bytes);
// What the kernel is advised of an access, on a modelled part.
void advised(int descriptor, uint64_t offset, uint64_t bytes, int advice);
struct access {
  int descriptor;
  enum part part;
  enum operation operation;
  struct file file;
  uint64_t offset, bytes; // of a sync: bytes written through its descriptor
  bool sequential;
  enum growth growth; // syncs: of the file since its last one, as far as it decides the service
  bool inode; // syncs: the file's inode is written, too
};
struct due {
  bool modelled; // whether a duration was drawn
  bool cached;
  bool copies; // from the page cache, when the device is done: what the base tier's call takes
  uint64_t end_ns;
  uint64_t filling_ns; // processor time of filling the page cache
  uint64_t processor_ns; // of the kernel, for the request
  bool as_engine_saw;
  unsigned waits; // of the thread, one after the other: for the writes, the inode, the flush
  uint64_t outside_ns; // processor time outside of the thread
  enum urgency urgency; // of that
};
// When a call that began at `start` would have ended on the modelled device of its part.
struct due due_at(struct thread *thread, const struct access *access, uint64_t start);
// Whether a sync of the part's files is modelled altogether: the base tier need not make it.
bool models_sync(enum part part);

// extras.c
// Finds out what the call's file system has to note of its file.
void note_inode(struct access *access);
// Adds what a call takes more than the device alone: it began at `start`, and ended on the base at `end`.
void add_extras(const struct thread *thread, const struct access *access, struct due *due,
                uint64_t start, uint64_t end);
void note_end(struct thread *thread, const struct access *access, uint64_t end);

// outside.c
struct outside {
  struct work *work; // NULL: there is nothing to wait for
  uint64_t until_ns;
  uint64_t due_at; // where no other thread has the processor
};
// Requests that much processor time of the program kernel-work, if it is there, on this processor.
struct outside request_work(enum urgency urgency, uint64_t ns);
// Waits until it is used. Returns whether it was not yet.
bool await_work(const struct outside *outside);
// By how much such work was late last: it waited for a processor.
uint64_t late_of_work(const struct outside *outside);

// record.c
void sleep_until(uint64_t until);
// Returns the time at which it is over: at the deadline, or when the thread ran again after it.
uint64_t wait_until(struct thread *thread, uint64_t now, uint64_t deadline);
// Uses that much processor time. Returns by how much it took longer, on a busy host.
uint64_t use_processor(uint64_t ns);
uint64_t random_number(struct thread *thread);
struct call {
  bool counted;
  bool datasync;
  int descriptor;
  struct file file;
  uint64_t start_ns;
  uint64_t unsynced; // of a sync
  enum growth growth;
  bool probed, cached; // of a read, whether the page cache had it
  long preempted; // of a direct call on a modelled device: how often the thread had been before
};
struct call begin_call(int descriptor, enum operation operation, off_t offset);
// Whether a read at an offset is first to be tried without waiting for a device: one in sixteen.
bool probes(struct call *call);
// Counts the call, waits for the planted delay, and returns `result`; errno stays as it is.
ssize_t end_call(const struct call *call, enum operation operation, off_t offset, ssize_t result);
#define QUEUE_UNKNOWN UINT64_MAX
// `queued`: how many others were under way.
void count_submitted(const struct file *file, int descriptor, enum operation operation,
                     off_t offset, uint64_t bytes, uint64_t queued);
void count_completed(enum role role, enum part part, enum operation operation, uint64_t start_ns,
                     bool failed);
enum role present_role(void);

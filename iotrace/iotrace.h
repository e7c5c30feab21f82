// libiotrace.so: counts and delays the file I/O of the process that it is preloaded into.
//
//   TIERBENCH_IOTRACE_PAGE        number of the inherited descriptor of the shared page (page.h)
//   TIERBENCH_IOTRACE_PARTS       "data=/directory", one per line, symbolic links resolved
//   TIERBENCH_IOTRACE_BACKGROUND  "thread=PREFIX" or "title=PREFIX", one per line: threads, by
//                                 name or by the process's title, that serve no client
//
// Without them, or with a page of another layout, it passes calls on and counts nothing.
// The wrappers make raw system calls: they also work before any library's constructor has run.
#ifndef IOTRACE_H
#define IOTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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

// environment.c
extern struct header *page; // NULL: nothing is counted
struct head *heads_of_page(void);
struct detail *details_of_page(void);
enum part part_of_path(const char *path, uint64_t device);
bool is_background(const char *thread_name);

// slots.c
struct thread {
  struct head *head; // NULL: no slot yet
  struct detail *detail;
  enum role role;
  uint32_t calls;
  uint64_t random;
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

// record.c
struct call {
  bool counted;
  bool datasync;
  int descriptor;
  struct file file;
  uint64_t start_ns;
  uint64_t unsynced; // of a sync
};
struct call begin_call(int descriptor, enum operation operation, off_t offset);
// Counts the call, waits for the planted delay, and returns `result`; errno stays as it is.
ssize_t end_call(const struct call *call, enum operation operation, off_t offset, ssize_t result);
void count_submitted(const struct file *file, int descriptor, enum operation operation,
                     off_t offset, uint64_t bytes, uint64_t queued);
void count_completed(enum role role, enum part part, enum operation operation, uint64_t start_ns,
                     bool failed);
enum role present_role(void);

#endif

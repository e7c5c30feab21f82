// kernel-work DESCRIPTOR: uses the processors as Linux would for modelled devices outside of the calling
// threads, in interrupts and in threads of its own, until it is killed.
//
// It has a thread of each urgency for each of its processors, which takes what calls request on the
// shared page of that number (iotrace/page.h). Whoever can write there can have it use processor time,
// and nothing else: its own user cannot make it run other code, whose priority would be as high.
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../futex.h"
#include "../page.h"

// Of requests, what is not used within that much processor time is left out.
#define MOST_BEHIND_NS 100000000ULL
// What sleeps and wakes used beyond the requests, later requests use less, up to that.
#define MOST_EXCESS_NS 1000000ULL

static struct work *work_of_page;

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static uint64_t processor_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// Returns the work that is requested, once there is some more than `done_ns`.
static uint64_t next_request(struct work *work, uint64_t done_ns) {
  uint64_t requested_ns;
  while ((requested_ns = __atomic_load_n(&work->requested_ns, __ATOMIC_SEQ_CST)) == done_ns) {
    __atomic_store_n(&work->idle, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&work->requested_ns, __ATOMIC_SEQ_CST) == done_ns) {
      futex_wait(&work->idle, 1, NULL);
    }
    __atomic_store_n(&work->idle, 0, __ATOMIC_SEQ_CST);
  }
  return requested_ns;
}

static void note_done(struct work *work, uint64_t done_ns) {
  __atomic_store_n(&work->done_ns, done_ns, __ATOMIC_SEQ_CST);
  if (__atomic_exchange_n(&work->awaited, 0, __ATOMIC_SEQ_CST) != 0) {
    __atomic_add_fetch(&work->completed, 1, __ATOMIC_SEQ_CST);
    futex_wake_all(&work->completed);
  }
}

// What is requested meanwhile begins now.
static void note_late(struct work *work, uint64_t ns) {
  uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  uint64_t took_ns = now_ns - __atomic_exchange_n(&work->requested_at, now_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&work->late_ns, took_ns > ns ? took_ns - ns : 0, __ATOMIC_RELAXED);
}

// What the thread uses to sleep and to wake is part of the requested time, as it is of Linux's.
static void serve(struct work *work) {
  uint64_t done_ns = __atomic_load_n(&work->requested_ns, __ATOMIC_SEQ_CST);
  uint64_t used_ns = processor_ns();
  __atomic_store_n(&work->done_ns, done_ns, __ATOMIC_SEQ_CST);
  __atomic_store_n(&work->present, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    uint64_t requested_ns = next_request(work, done_ns), ns = requested_ns - done_ns;
    used_ns += ns < MOST_BEHIND_NS ? ns : MOST_BEHIND_NS;
    uint64_t now_ns;
    while ((now_ns = processor_ns()) < used_ns) {
    }
    note_late(work, ns);
    used_ns = now_ns - used_ns < MOST_EXCESS_NS ? used_ns : now_ns - MOST_EXCESS_NS;
    done_ns = requested_ns;
    note_done(work, done_ns);
  }
}

struct seat {
  enum urgency urgency;
  unsigned processor;
};

static void *take(void *of) {
  const struct seat *seat = of;
  if (seat->urgency == URGENT) {
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(seat->processor, &processor);
    sched_setaffinity(0, sizeof processor, &processor);
  } else {
    setpriority(PRIO_PROCESS, 0, 0); // of this thread alone
  }
  serve(&work_of_page[seat->urgency * WORK_PROCESSORS + seat->processor]);
  return NULL;
}

static bool map_work(const char *number) {
  char *end;
  long descriptor = strtol(number, &end, 10);
  struct stat facts;
  if (*end != '\0' || descriptor < 0 || descriptor > INT_MAX ||
      fstat((int)descriptor, &facts) != 0 || (uint64_t)facts.st_size != PAGE_BYTES) {
    return false;
  }
  void *mapped =
      mmap(NULL, HEADS_AT, PROT_READ | PROT_WRITE, MAP_SHARED, (int)descriptor, 0);
  if (mapped == MAP_FAILED) {
    return false;
  }
  const struct header *header = mapped;
  work_of_page = (void *)((char *)mapped + WORK_AT);
  return header->magic == PAGE_MAGIC && header->version == PAGE_VERSION;
}

int main(int count, char **arguments) {
  static struct seat seats[URGENCIES * WORK_PROCESSORS];
  cpu_set_t processors;
  prctl(PR_SET_DUMPABLE, 0);
  if (count != 2 || !map_work(arguments[1])) {
    fputs("kernel-work: needs the descriptor of an I/O trace's page\n", stderr);
    return 2;
  }
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) {
    perror("kernel-work: processors");
    return 1;
  }
  struct seat *seat = seats;
  for (enum urgency urgency = URGENT; urgency < URGENCIES; urgency++) {
    for (unsigned processor = 0; processor < WORK_PROCESSORS; processor++) {
      pthread_t id;
      if (!CPU_ISSET(processor, &processors)) {
        continue;
      }
      *seat = (struct seat){urgency, processor};
      if (pthread_create(&id, NULL, take, seat++) != 0) {
        perror("kernel-work: a thread");
        return 1;
      }
    }
  }
  for (;;) {
    pause();
  }
}

// Counting one call, and its planted delay.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "iotrace.h"

// A sleep is woken late, by microseconds on a busy processor and by tens of them on an idle one: it
// is to end that much earlier, and what is left spins. Whoever has to wait for a processor is woken
// later still, as by a device.
#define LONGEST_WAKE_NS 50000
#define WAKE_STEP_NS 100
#define WAKE_STEPS_DOWN 8
// What setting a timer and waking by it take of a processor.
#define TIMER_NS 10000
#define MOST_EXCESS_NS 1000000
// A wake that is late by more has waited for a processor, which the thread's next calls find wanted,
// too.
#define WAITED_NS 30000
#define CALLS_WANTED 8
#define LONGEST_DELAY_NS 10000000000ULL
// A call of the base tier may end later than the modelled device's by what no engine notices.
#define LATE_NS 2000
#define MOST_OVERDUE_NS 100000000ULL
#define PROBED_OF 16
#define FILE_PROBES 64
uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static unsigned highest_bit(uint64_t value) { return 63 - (unsigned)__builtin_clzll(value | 1); }

static unsigned counter_of(uint64_t ns) {
  uint64_t units = (ns < HISTOGRAM_MAX ? ns : HISTOGRAM_MAX) >> HISTOGRAM_UNIT_BITS;
  if (units < 2 << HISTOGRAM_HALF_BITS) {
    return (unsigned)units;
  }
  unsigned shift = highest_bit(units) - HISTOGRAM_HALF_BITS;
  return (shift << HISTOGRAM_HALF_BITS) + (unsigned)(units >> shift);
}

static unsigned size_class(uint64_t bytes) {
  if (bytes <= 1ULL << SIZE_FIRST_BITS) {
    return 0;
  }
  unsigned size = highest_bit(bytes - 1) + 1 - SIZE_FIRST_BITS;
  return size < SIZE_CLASSES ? size : SIZE_CLASSES - 1;
}

uint64_t random_number(struct thread *thread) {
  thread->random ^= thread->random << 13; // xorshift64
  thread->random ^= thread->random >> 7;
  thread->random ^= thread->random << 17;
  return thread->random * 0x2545f4914f6cdd1dULL >> 16;
}

static uint64_t planted_ns(struct thread *thread, enum part part, enum operation operation) {
  const struct delay *delay = &page->delay[thread->role][part][operation];
  uint64_t ns = __atomic_load_n(&delay->ns, __ATOMIC_RELAXED);
  uint64_t jitter = __atomic_load_n(&delay->jitter_ns, __ATOMIC_RELAXED);
  if (ns != 0 && jitter != 0 && jitter <= ns) {
    ns += random_number(thread) % (2 * jitter + 1) - jitter;
  }
  return ns < LONGEST_DELAY_NS ? ns : LONGEST_DELAY_NS;
}

void sleep_until(uint64_t until) {
  struct timespec wake = {(time_t)(until / 1000000000ULL), (long)(until % 1000000000ULL)};
  int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1);
  // Not libc's, at which a thread can be cancelled. A signal handler runs, and it sleeps on.
  while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) != 0 &&
         errno == EINTR) {
  }
  prctl(PR_SET_TIMERSLACK, slack > 0 ? slack : 0);
}

uint64_t use_processor(uint64_t ns) {
  if (ns == 0) {
    return 0;
  }
  uint64_t start = now_ns(), used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - used < ns) {
  }
  return now_ns() - start - ns;
}

// Sleeps until shortly before the deadline. The wake's lateness is a running quantile of one in nine:
// what a processor takes to wake, without the waiting for one. Returns the time.
static uint64_t sleep_towards(struct thread *thread, uint64_t deadline) {
  sleep_until(deadline - thread->wake_ns);
  uint64_t woken = now_ns();
  if (woken > deadline) {
    thread->wake_ns += thread->wake_ns < LONGEST_WAKE_NS ? WAKE_STEP_NS : 0;
  } else {
    uint64_t step = WAKE_STEPS_DOWN * WAKE_STEP_NS;
    thread->wake_ns -= thread->wake_ns < step ? thread->wake_ns : step;
  }
  return woken;
}

uint64_t wait_until(struct thread *thread, uint64_t now, uint64_t deadline) {
  if (deadline > now + thread->wake_ns) {
    sleep_towards(thread, deadline);
  }
  while ((now = now_ns()) < deadline) {
  }
  return now;
}

// A sync waits for its writes, and then for the flush, which begins later where the thread or a worker
// got no processor in between. What Linux does meanwhile outside of the thread (`outside`: at first) may end
// later than the device.
static uint64_t wait_in_turn(struct thread *thread, const struct due *due, struct outside outside,
                             uint64_t deadline) {
  uint64_t now = now_ns(), outside_ns = due->outside_ns / due->waits;
  for (unsigned waits = due->waits; waits > 0; waits--) {
    uint64_t done = deadline > now ? now + (deadline - now) / waits : now;
    // Whoever does that work wakes the thread, without a timer.
    if (outside.work != NULL && done < now + outside_ns + TIMER_NS && await_work(&outside)) {
      now = now_ns();
    }
    if (waits == 1) {
      now = wait_until(thread, now, done);
    } else if (done > now + thread->wake_ns) {
      now = sleep_towards(thread, done);
    }
    if (await_work(&outside)) {
      now = now_ns();
    }
    if (now > done + WAITED_NS) {
      thread->wanted = CALLS_WANTED;
    }
    if (thread->wanted != 0) {
      // The device begins when its worker has, and what is left when the thread has.
      uint64_t late_ns = late_of_work(&outside), due_at = later(done, outside.due_at + late_ns);
      deadline += late_ns + later(now, due_at) - due_at;
    }
    outside = waits > 1 ? request_work(due->urgency, outside_ns) : outside;
  }
  return now;
}

static long times_preempted(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// By how much the base tier alone took longer than the modelled device would have. A thread that had
// to give its processor up within a direct call, which a disk in memory carries out on it, would have
// waited for a processor on a device, too.
static uint64_t late_by(const struct call *call, uint64_t end, uint64_t due) {
  bool late = end > due + LATE_NS;
  return late && !(call->file.direct && times_preempted() != call->preempted) ? end - due : 0;
}

struct call begin_call(int descriptor, enum operation operation, off_t offset) {
  struct call call = {0};
  if (page == NULL) {
    return call;
  }
  call.counted = true;
  call.descriptor = descriptor;
  call.file = file_of(descriptor);
  if (call.file.part != OTHER) {
    if (operation == WRITE) {
      look_at_end(descriptor, offset);
    } else if (operation == SYNC) { // what is written meanwhile may be left to the next one
      call.unsynced = take_unsynced(descriptor);
      call.growth = take_growth(descriptor);
    }
    if (call.file.direct && models_of_page()->device_of[call.file.part] != 0) {
      call.preempted = times_preempted();
    }
    call.start_ns = now_ns();
  }
  return call;
}

// Returns whether it began where the previous one on the descriptor ended.
static bool count_access(struct thread *thread, struct cell *cell, const struct call *call,
                         enum operation operation, off_t offset, uint64_t bytes) {
  add(&cell->bytes, bytes);
  if (call->file.part == OTHER) {
    return false;
  }
  uint64_t size = operation == SYNC ? call->unsynced : bytes;
  if (operation != SYNC || size != 0) {
    struct detail *detail = thread->detail;
    add(&detail->distributions[thread->role][call->file.part][operation].sizes[size_class(size)],
        1);
  }
  if (operation == SYNC) {
    add(&cell->datasync, call->datasync);
    add(&cell->dirtied_bytes, size);
    return false;
  }
  if (operation == WRITE) {
    bool longer = extends(call->descriptor, offset, bytes);
    add(&cell->extending, longer || call->file.appends);
    add(&cell->durable, call->file.durable);
    add_unsynced(call->descriptor, call->file.durable ? 0 : bytes);
  }
  bool sequential = follows(call->descriptor, offset, bytes);
  add(&cell->sequential, sequential);
  add(&cell->direct, call->file.direct);
  return sequential;
}

// What the sleep and the model itself used beyond a call's processor time, the thread's next calls use
// less.
static void settle_excess(struct thread *thread, uint64_t used_ns, uint64_t processor_ns) {
  uint64_t excess = later(used_ns + thread->excess_ns, processor_ns) - processor_ns;
  thread->excess_ns = excess < MOST_EXCESS_NS ? excess : MOST_EXCESS_NS;
}

struct file_counters *counters_of(uint64_t identity) {
  struct files *files = files_of_page();
  for (uint64_t i = 0; identity != 0 && i < FILE_PROBES; i++) {
    uint64_t at = ((identity >> 32) + i) % FILES;
    uint64_t key = __atomic_load_n(&files->keys[at], __ATOMIC_RELAXED);
    if (key == 0 && __atomic_compare_exchange_n(&files->keys[at], &key, identity, false,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      key = identity;
    }
    if (key == identity) {
      return &files->counters[at];
    }
  }
  return NULL;
}

// Durations that an engine saw contain its waiting for processors, for which calls wait here, too:
// by what a call ended late, the thread's next ones end earlier.
static uint64_t settle_overdue(struct thread *thread, uint64_t now, uint64_t end_ns) {
  uint64_t left = end_ns > now ? end_ns - now : 0;
  uint64_t earlier = left < thread->overdue_ns ? left : thread->overdue_ns;
  thread->overdue_ns -= earlier;
  return end_ns - earlier;
}

static void add_overdue(struct thread *thread, uint64_t late_ns) {
  uint64_t overdue = thread->overdue_ns + late_ns;
  thread->overdue_ns = overdue < MOST_OVERDUE_NS ? overdue : MOST_OVERDUE_NS;
}

// Waits until the call would have ended on the modelled device of its part; when that is over.
static uint64_t wait_for_device(struct thread *thread, struct cell *cell, const struct call *call,
                                struct access *access, uint64_t end) {
  note_inode(access);
  struct due due = due_at(thread, access, call->start_ns);
  add(&cell->cached, due.cached);
  if (!due.modelled) {
    return end;
  }
  add_extras(thread, access, &due, call->start_ns, end);
  thread->wanted -= thread->wanted != 0;
  uint64_t copied_ns = due.copies ? end - call->start_ns : 0; // part of filling
  due.end_ns += later(copied_ns, due.filling_ns) - due.filling_ns;
  struct distribution *distribution =
      &thread->detail->distributions[thread->role][access->part][access->operation];
  add(&cell->modelled, 1);
  add(&cell->late_ns, late_by(call, end, due.end_ns));
  add(&distribution->due[counter_of(due.end_ns - call->start_ns)], 1);
  if (due.as_engine_saw) {
    due.end_ns = settle_overdue(thread, end, due.end_ns);
  }
  due.end_ns = due.end_ns < end + LONGEST_DELAY_NS ? due.end_ns : end + LONGEST_DELAY_NS;
  uint64_t processor_ns = 0, begun = 0;
  if (due.end_ns > end) {
    // Less what the base tier, in memory, and the model have used already.
    uint64_t used_ns = now_ns() - (due.copies ? end : call->start_ns);
    processor_ns = later(due.processor_ns, used_ns) - used_ns;
    processor_ns += later(due.filling_ns, copied_ns) - copied_ns;
    begun = processor_ns != 0 ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    uint64_t own_ns = later(processor_ns, thread->excess_ns) - thread->excess_ns;
    // Workers begin as the thread goes on, interrupts come when the device is done.
    uint64_t before_ns = due.urgency == URGENT ? own_ns : 0;
    uint64_t lost = use_processor(before_ns);
    struct outside outside = request_work(due.urgency, due.outside_ns / due.waits);
    lost += use_processor(own_ns - before_ns);
    end = wait_in_turn(thread, &due, outside, due.end_ns + lost);
  }
  if (due.as_engine_saw && end > due.end_ns) {
    add_overdue(thread, end - due.end_ns);
  }
  add(&distribution->achieved[counter_of(end - call->start_ns)], 1);
  note_end(thread, access, end);
  if (processor_ns != 0) {
    settle_excess(thread, thread->rested_ns - begun, processor_ns);
  }
  return end;
}

static void count_file(const struct thread *thread, int descriptor, enum operation operation,
                       uint64_t bytes, uint64_t ns) {
  struct file_counters *file = counters_of(identity_of(descriptor));
  if (file != NULL) {
    uint64_t shard = (uint64_t)(thread->head - heads_of_page()) % FILE_SHARDS;
    struct file_cell *cell = &file->cells[shard][thread->role][operation];
    add_shared(&cell->calls, 1);
    add_shared(&cell->bytes, bytes);
    add_shared(&cell->ns, ns);
  }
}

bool probes(struct call *call) {
  if (!call->counted || call->file.part == OTHER || call->file.direct ||
      models_of_page()->device_of[call->file.part] != 0) {
    return false;
  }
  struct thread *thread = this_thread();
  call->probed = thread != NULL && random_number(thread) % PROBED_OF == 0;
  return call->probed;
}

ssize_t end_call(const struct call *call, enum operation operation, off_t offset,
                 ssize_t result) {
  if (!call->counted) {
    return result;
  }
  int error = errno;
  bool traced = call->file.part != OTHER;
  uint64_t end = traced ? now_ns() : 0;
  struct thread *thread = this_thread();
  if (thread == NULL) {
    return result;
  }
  enum part part = call->file.part;
  struct cell *cell = &thread->head->cells[thread->role][part][operation];
  add(&cell->calls, 1);
  add(&cell->probed, call->probed);
  add(&cell->cached, call->cached);
  struct access access = {call->descriptor, part, operation, call->file, 0, 0, false, call->growth, false};
  if (result < 0) {
    add(&cell->errors, 1);
  } else {
    uint64_t bytes = operation == SYNC ? 0 : (uint64_t)result;
    access.bytes = operation == SYNC ? call->unsynced : bytes;
    access.offset = traced ? start_of(call->descriptor, call->file, offset) : 0;
    access.sequential = count_access(thread, cell, call, operation, offset, bytes);
  }
  if (traced && result >= 0) {
    uint64_t ns = end - call->start_ns, over = end;
    if (models_of_page()->device_of[part] != 0) {
      over = wait_for_device(thread, cell, call, &access, end);
    }
    uint64_t planted = planted_ns(thread, part, operation);
    if (planted != 0) {
      over = wait_until(thread, over, over + planted);
    }
    uint64_t delay = over - end;
    add(&cell->delayed, delay != 0);
    add(&cell->delay_ns, delay);
    struct detail *detail = thread->detail;
    add(&cell->ns, ns);
    add(&cell->timed, 1);
    add(&detail->distributions[thread->role][part][operation].durations[counter_of(ns + delay)],
        1);
    count_file(thread, call->descriptor, operation, operation == SYNC ? 0 : (uint64_t)result,
               ns + delay);
  }
  errno = error;
  return result;
}

enum role present_role(void) {
  struct thread *thread = this_thread();
  return thread == NULL ? FOREGROUND : thread->role;
}

void count_submitted(const struct file *file, int descriptor, enum operation operation,
                     off_t offset, uint64_t bytes, uint64_t queued) {
  struct thread *thread = this_thread();
  if (thread == NULL) {
    return;
  }
  struct cell *cell = &thread->head->cells[thread->role][file->part][operation];
  struct call call = {.counted = true, .descriptor = descriptor, .file = *file};
  add(&cell->calls, 1);
  add(&cell->submitted, 1);
  add(&cell->submitted_bytes, bytes);
  if (queued != QUEUE_UNKNOWN) {
    add(&cell->queue_known, 1);
    add(&cell->queued, queued);
  }
  count_access(thread, cell, &call, operation, offset, bytes);
  if (file->part != OTHER) {
    count_file(thread, descriptor, operation, bytes, 0);
  }
}

void count_completed(enum role role, enum part part, enum operation operation, uint64_t start_ns,
                     bool failed) {
  struct thread *thread = this_thread();
  if (thread == NULL) {
    return;
  }
  struct cell *cell = &thread->head->cells[role][part][operation];
  if (failed) {
    add(&cell->errors, 1);
    return;
  }
  uint64_t ns = now_ns() - start_ns;
  add(&cell->ns, ns);
  add(&cell->timed, 1);
  add(&thread->detail->distributions[role][part][operation].durations[counter_of(ns)], 1);
}

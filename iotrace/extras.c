// What a call on a modelled device takes more than its durations, which are of one thread that makes
// one call after the other on files of which the file system has nothing to note.
#include <sched.h>
#include <time.h>

#include "iotrace.h"

// After so much processor time of its own, a thread's call finds nothing of the kernel's in the
// processor's caches: 4 MiB are written to in less.
#define WORK_NS 300000
// Calls on two processors within that time are of threads that run at once.
#define SEVERAL_NS 1000000

static const struct device *device_of(const struct access *access) {
  const struct models *models = models_of_page();
  return &models->devices[models->device_of[access->part] - 1];
}

static struct state *state_of(const struct access *access) {
  struct models *models = models_of_page();
  return &models->state[models->device_of[access->part] - 1];
}

static void add_share(struct due *due, const struct extra *extra, enum operation operation, double share) {
  due->end_ns += (uint64_t)((double)extra->longer_ns[operation] * share);
  due->processor_ns += (uint64_t)((double)extra->processor_ns[operation] * share);
}

// Linear between the pauses that are stated.
static void add_after_pause(struct due *due, const struct device *device, enum operation operation,
                            uint64_t pause_ns) {
  int above = 0;
  while (above < MODEL_PAUSES && device->pause_ns[above] != 0 && device->pause_ns[above] <= pause_ns) {
    above++;
  }
  double share = 0;
  if (above < MODEL_PAUSES && device->pause_ns[above] != 0) {
    uint64_t from = above > 0 ? device->pause_ns[above - 1] : 0;
    share = (double)(pause_ns - from) / (double)(device->pause_ns[above] - from);
    add_share(due, &device->after_pause[above], operation, share);
  }
  if (above > 0) {
    add_share(due, &device->after_pause[above - 1], operation, 1 - share);
  }
}

// After its own work, up to WORK_NS, a thread's call finds nothing of the kernel's in the processor's
// caches. After more of it, or while no thread calls, also the processors have rested.
static void add_pauses(struct due *due, const struct thread *thread, const struct access *access,
                       uint64_t start) {
  const struct device *device = device_of(access);
  uint64_t worked = later(clock_ns(CLOCK_THREAD_CPUTIME_ID), thread->rested_ns) - thread->rested_ns;
  uint64_t ended = __atomic_load_n(&state_of(access)->ended_at, __ATOMIC_RELAXED);
  uint64_t idle = ended != 0 && start > ended ? start - ended : 0;
  double share = worked < WORK_NS ? (double)worked / WORK_NS : 1;
  add_share(due, &device->after_work, access->operation, share);
  add_after_pause(due, device, access->operation, worked > idle ? worked : idle);
}

// The service of a call: a sync of a file that grew has its own.
static unsigned service_of(const struct access *access) {
  bool grown = access->operation == SYNC && access->growth != NO_GROWTH;
  return grown ? OPERATIONS : (unsigned)access->operation;
}

// A device's interrupts come to one processor, and find it awake where one thread makes all calls there.
// While calls are made on several, each waits for a processor to wake. A loop device's single caller waits for
// its worker's processor, which several callers keep awake: they are shorter.
static void add_way_to_processor(const struct access *access, struct due *due, uint64_t now) {
  struct state *state = state_of(access);
  uint64_t here = (uint64_t)sched_getcpu() + 1;
  uint64_t last = __atomic_exchange_n(&state->processor, here, __ATOMIC_RELAXED);
  if (last != 0 && last != here) {
    __atomic_store_n(&state->several_until, now + SEVERAL_NS, __ATOMIC_RELAXED);
  }
  if (now >= __atomic_load_n(&state->several_until, __ATOMIC_RELAXED)) {
    return;
  }
  const struct device *device = device_of(access);
  if (access->inode && access->growth == NO_GROWTH) {
    due->end_ns += device->inode_elsewhere_ns;
  } else {
    unsigned service = service_of(access);
    due->end_ns += device->elsewhere_ns[service];
    due->end_ns = later(due->end_ns - device->shorter_elsewhere_ns[service], least(due->end_ns, now));
  }
}

// Where a file system has no journal, a sync writes the inode of a file whose end or time has changed.
// Linux changes the time with the first write of a tick of its clock, whichever process makes that.
static bool writes_inode(const struct access *access) {
  struct file_counters *file = counters_of(identity_of(access->descriptor));
  if (file == NULL) {
    return access->growth != NO_GROWTH;
  }
  if (access->operation == WRITE) {
    uint64_t tick = clock_ns(CLOCK_REALTIME_COARSE);
    if (__atomic_exchange_n(&file->written_at, tick, __ATOMIC_RELAXED) != tick) {
      __atomic_store_n(&file->inode_dirty, 1, __ATOMIC_RELAXED);
    }
  }
  bool syncs = access->operation == SYNC || access->file.durable;
  bool dirty = syncs && __atomic_exchange_n(&file->inode_dirty, 0, __ATOMIC_RELAXED) != 0;
  return dirty || access->growth != NO_GROWTH;
}

// What a sync has to note of the file. The durations of one that grew beyond its space contain that.
void note_inode(struct access *access) {
  const struct device *device = device_of(access);
  if (access->operation == WRITE && access->file.durable) {
    access->growth = take_growth(access->descriptor);
  }
  if (device->inode_longer_ns != 0 && access->operation != READ) {
    access->inode = writes_inode(access);
    if (access->growth == INTO_RESERVED || device->service[OPERATIONS].points == 0) {
      access->growth = NO_GROWTH;
    }
  }
}

static void add_inode(const struct access *access, struct due *due) {
  const struct device *device = device_of(access);
  if (!access->inode) {
    return;
  }
  due->waits++;
  if (access->growth == NO_GROWTH) {
    due->end_ns += device->inode_longer_ns;
    due->processor_ns += device->inode_processor_ns;
  }
}

static void add_outside(const struct thread *thread, const struct access *access, struct due *due) {
  const struct device *device = device_of(access);
  unsigned service = service_of(access);
  due->outside_ns = device->outside_ns[service];
  if (device->outside_urgency != URGENT) {
    due->urgency = access->operation == READ ? ORDINARY_READS : ORDINARY;
  }
  if (thread->wanted != 0) {
    uint64_t alone_ns = device->processor_ns[access->operation];
    uint64_t busy_ns = due->processor_ns + device->busy_processor_ns[access->operation];
    due->processor_ns = later(busy_ns, alone_ns) - alone_ns;
    due->outside_ns = device->busy_outside_ns[service];
  }
}

void add_extras(const struct thread *thread, const struct access *access, struct due *due,
                uint64_t start, uint64_t end) {
  add_inode(access, due);
  add_pauses(due, thread, access, start);
  add_way_to_processor(access, due, end);
  add_outside(thread, access, due);
}

void note_end(struct thread *thread, const struct access *access, uint64_t end) {
  thread->rested_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  __atomic_store_n(&state_of(access)->ended_at, end, __ATOMIC_RELAXED);
}

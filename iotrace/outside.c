// Work that Linux would do for a modelled device outside of the calling thread: requested here, and done
// by the program kernel-work.
#include <sched.h>

#include "futex.h"
#include "iotrace.h"

// A program that does not do its work within that time is not there any more.
static const struct timespec longest_wait = {1, 0};

// An interrupt ends no thread's turn on its processor, as one of that program's threads does each time
// that it runs: what interrupts use is used in one go.
#define BATCH_NS 50000

struct outside request_work(enum urgency urgency, uint64_t ns) {
  struct outside outside = {0};
  unsigned processor = (unsigned)sched_getcpu() % WORK_PROCESSORS;
  struct work *work = work_of_page() + urgency * WORK_PROCESSORS + processor;
  if (ns == 0 || __atomic_load_n(&work->present, __ATOMIC_RELAXED) == 0) {
    return outside;
  }
  uint64_t until_ns = __atomic_add_fetch(&work->requested_ns, ns, __ATOMIC_SEQ_CST);
  if (urgency != URGENT) {
    outside = (struct outside){.work = work, .until_ns = until_ns, .due_at = now_ns() + ns};
  } else if (until_ns - __atomic_load_n(&work->done_ns, __ATOMIC_RELAXED) < BATCH_NS) {
    return outside;
  }
  if (__atomic_exchange_n(&work->idle, 0, __ATOMIC_SEQ_CST) != 0) {
    __atomic_store_n(&work->requested_at, now_ns(), __ATOMIC_RELAXED);
    futex_wake_all(&work->idle);
  }
  return outside;
}

static bool is_done(const struct outside *outside) {
  uint64_t done_ns = __atomic_load_n(&outside->work->done_ns, __ATOMIC_SEQ_CST);
  return (int64_t)(done_ns - outside->until_ns) >= 0;
}

uint64_t late_of_work(const struct outside *outside) {
  return outside->work == NULL ? 0 : __atomic_load_n(&outside->work->late_ns, __ATOMIC_RELAXED);
}

bool await_work(const struct outside *outside) {
  struct work *work = outside->work;
  bool waited = false;
  while (work != NULL && !is_done(outside)) {
    uint32_t seen = __atomic_load_n(&work->completed, __ATOMIC_SEQ_CST);
    __atomic_store_n(&work->awaited, 1, __ATOMIC_SEQ_CST);
    waited = true;
    if (!is_done(outside) && futex_wait(&work->completed, seen, &longest_wait) != 0 &&
        errno == ETIMEDOUT) {
      __atomic_store_n(&work->present, 0, __ATOMIC_RELAXED);
      break;
    }
  }
  return waited;
}

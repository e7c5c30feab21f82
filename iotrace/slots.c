// A slot of the page for each thread that does I/O.
#include <pthread.h>
#include <sys/prctl.h>

#include "iotrace.h"

#define NAME_EVERY 4096 // calls, after the first few

static __thread struct thread self __attribute__((tls_model("initial-exec")));
static pthread_key_t at_thread_end;

static void release(void *unused) {
  if (self.head != NULL) {
    struct head *head = self.head;
    self.head = NULL;
    __atomic_store_n(&head->pid, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&head->owner, 0, __ATOMIC_RELEASE);
  }
}

static void in_forked_child(void) {
  self.head = NULL; // the slot stays the parent's
  self.calls = 0;
}

void watch_threads(void) {
  pthread_key_create(&at_thread_end, release);
  pthread_atfork(NULL, NULL, in_forked_child);
}

__attribute__((destructor)) static void end(void) { release(NULL); }

static bool take(struct head *head, uint32_t present, uint32_t tid) {
  return __atomic_compare_exchange_n(&head->owner, &present, tid, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

// Without a pid, another thread is taking the slot, and is not dead.
static bool is_dead(struct head *head, uint32_t owner) {
  uint32_t pid = __atomic_load_n(&head->pid, __ATOMIC_RELAXED);
  return pid != 0 && syscall(SYS_tgkill, pid, owner, 0) < 0 && errno == ESRCH &&
         __atomic_compare_exchange_n(&head->pid, &pid, 0, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

// A free slot, or that of this very thread before it called exec, or one whose thread has died.
static struct head *find_slot(uint32_t tid) {
  struct head *heads = heads_of_page();
  for (size_t i = 0; i < PAGE_SLOTS; i++) {
    uint32_t owner = __atomic_load_n(&heads[i].owner, __ATOMIC_RELAXED);
    if ((owner == 0 || owner == tid) && take(&heads[i], owner, tid)) {
      return &heads[i];
    }
  }
  for (size_t i = 0; i < PAGE_SLOTS; i++) {
    uint32_t owner = __atomic_load_n(&heads[i].owner, __ATOMIC_RELAXED);
    if (owner != 0 && is_dead(&heads[i], owner) && take(&heads[i], owner, tid)) {
      return &heads[i];
    }
  }
  return NULL;
}

static void claim(void) {
  uint32_t tid = (uint32_t)syscall(SYS_gettid);
  struct head *head = find_slot(tid);
  if (head == NULL) {
    return;
  }
  size_t number = (size_t)(head - heads_of_page());
  __atomic_store_n(&head->pid, (uint32_t)syscall(SYS_getpid), __ATOMIC_RELEASE);
  for (uint32_t used = page->used;
       used <= number && !__atomic_compare_exchange_n(&page->used, &used, (uint32_t)number + 1,
                                                      false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);) {
  }
  self.random = tid * 0x9e3779b97f4a7c15ULL | 1;
  self.detail = details_of_page() + number;
  self.head = head;
  pthread_setspecific(at_thread_end, head); // any value: release is called for it
}

// Threads are named, and processes change their titles, after they have begun to work.
static void look_at_name(void) {
  char name[PAGE_NAME] = "";
  prctl(PR_GET_NAME, name);
  self.role = is_background(name) ? BACKGROUND : FOREGROUND;
  memcpy(self.head->name, name, sizeof name);
  self.head->role = self.role;
}

struct thread *this_thread(void) {
  uint32_t calls = self.calls++;
  bool due = calls < NAME_EVERY ? (calls & (calls - 1)) == 0 : calls % NAME_EVERY == 0;
  if (__builtin_expect(due, 0)) {
    int error = errno;
    if (self.head == NULL) {
      claim();
    }
    if (self.head != NULL) {
      look_at_name();
    }
    errno = error;
  }
  if (__builtin_expect(self.head == NULL, 0)) {
    add_shared(&page->lost_calls, 1);
    return NULL;
  }
  return &self;
}

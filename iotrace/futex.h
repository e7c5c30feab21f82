// Waiting for a number in the shared page, by processes of both sides.
#pragma once

#include <linux/futex.h>
#include <limits.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Returns at once where the word has another value; -1 with ETIMEDOUT after `limit` (NULL: never).
static inline long futex_wait(uint32_t *word, uint32_t value, const struct timespec *limit) {
  return syscall(SYS_futex, word, FUTEX_WAIT, value, limit, NULL, 0);
}

static inline void futex_wake_all(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

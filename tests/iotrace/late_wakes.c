// Clocks that move by 1 us at each reading, and sleeps that end late by LATE_WAKES: microseconds,
// one after the other, and then 0. Files' times change every 400 ms. Preloaded before libiotrace.so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

int sleeps;
static int used_us; // processor time, which passes while it is looked at
static uint64_t now = 1000000000;
static char *late;

int clock_gettime(clockid_t clock, struct timespec *time) {
  used_us += clock == CLOCK_THREAD_CPUTIME_ID;
  now += clock == CLOCK_MONOTONIC || clock == CLOCK_THREAD_CPUTIME_ID ? 1000 : 0;
  uint64_t read = clock == CLOCK_THREAD_CPUTIME_ID  ? (uint64_t)used_us * 1000
                  : clock == CLOCK_REALTIME_COARSE ? now - now % 400000000
                                                   : now;
  time->tv_sec = (time_t)(read / 1000000000);
  time->tv_nsec = (long)(read % 1000000000);
  return 0;
}

static long sleep_late(const struct timespec *wake) {
  late = late == NULL ? getenv("LATE_WAKES") : late;
  now = (uint64_t)wake->tv_sec * 1000000000 + (uint64_t)wake->tv_nsec;
  now += strtoul(late, &late, 10) * 1000;
  late += *late == ',';
  sleeps++;
  return 0;
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; i++) {
    a[i] = va_arg(list, long);
  }
  va_end(list);
  if (number == SYS_clock_nanosleep) {
    return sleep_late((const struct timespec *)a[2]);
  }
  if (real == NULL) {
    real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

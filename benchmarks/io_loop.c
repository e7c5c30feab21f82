// Calls on one file in a loop, as an engine makes them: prints ns per call of each batch.
//
//   io_loop read|write|sync FILE BYTES CALLS BATCHES
//
// The first batch is not printed: pages become resident, and branches known.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int count, char **argument) {
  if (count != 6) {
    return 2;
  }
  int file = open(argument[2], O_RDWR | O_CREAT, 0600);
  size_t size = strtoul(argument[3], NULL, 10);
  long calls = strtol(argument[4], NULL, 10), batches = strtol(argument[5], NULL, 10);
  char *block = calloc(1, size), kind = argument[1][0];
  if (file < 0 || block == NULL || write(file, block, size) != (ssize_t)size) {
    return 1;
  }
  for (long batch = 0; batch <= batches; batch++) {
    double start = now_ns();
    for (long i = 0; i < calls; i++) {
      ssize_t done = kind == 'r'   ? pread(file, block, size, 0)
                     : kind == 'w' ? pwrite(file, block, size, 0)
                                   : fdatasync(file);
      if (done < 0) {
        return 1;
      }
    }
    if (batch > 0) {
      printf("%.1f\n", (now_ns() - start) / (double)calls);
    }
  }
  return 0;
}

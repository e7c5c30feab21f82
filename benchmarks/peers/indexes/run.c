/*
 * run RECORDS SEED: inserts uniformly drawn keys, then reads each in another order; prints both as
 * operations per second of processor time. All memory is of 4 KiB pages that were touched before.
 */
#include "arm.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { BYTES_PER_RECORD = 600 };

static uint64_t state;

static uint64_t draw(void) /* splitmix64 */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    size_t records = argc == 3 ? strtoull(argv[1], NULL, 10) : 0, wrong = 0;
    size_t bytes = records * BYTES_PER_RECORD / 4096 * 4096;
    if (records < 2000)
        return 2;
    state = strtoull(argv[2], NULL, 10);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    uint64_t *keys = malloc(records * sizeof *keys), *reads = malloc(records * sizeof *reads);
    void *touched = malloc(bytes);
    if (!keys || !reads || !touched)
        return 1;
    memset(touched, 1, bytes);
    free(touched);
    for (size_t i = 0; i < records; i++)
        reads[i] = keys[i] = (draw() >> 1) + 1; /* FAST&FAIR's are signed */
    for (size_t i = records - 1; i > 0; i--) {
        size_t other = draw() % (i + 1);
        uint64_t key = reads[i];
        reads[i] = reads[other];
        reads[other] = key;
    }
    arm_open(bytes);
    double begin = now();
    for (size_t i = 0; i < records; i++)
        arm_insert(keys[i], keys[i]);
    double inserted = now();
    for (size_t i = 0; i < records; i++)
        wrong += arm_read(reads[i]) != reads[i];
    double end = now();
    if (wrong) {
        fprintf(stderr, "%zu of %zu records are wrong\n", wrong, records);
        return 1;
    }
    printf("%.0f %.0f\n", (double)records / (inserted - begin), (double)records / (end - inserted));
    return 0;
}

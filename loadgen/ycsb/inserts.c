/* See inserts.h. */
#include "inserts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct lg_ycsb_inserts *lg_ycsb_inserts_open(const char *shared, struct tb_error *error)
{
    size_t bytes = sizeof(struct lg_ycsb_inserts);
    int file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *mapped = MAP_FAILED;

    if (shared) {
        file = open(shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        flags = MAP_SHARED;
    }
    if (!shared || (file >= 0 && ftruncate(file, (off_t)bytes) == 0))
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (mapped == MAP_FAILED)
        tb_fail(error, "shared %s: %s", shared ? shared : "memory", strerror(errno));
    if (file >= 0)
        close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

void lg_ycsb_inserts_close(struct lg_ycsb_inserts *inserts)
{
    munmap(inserts, sizeof *inserts);
}

static atomic_uchar *place_of(struct lg_ycsb_inserts *inserts, uint64_t number)
{
    return &inserts->window[number % YCSB_INSERT_WINDOW];
}

/* Over all that is there without a gap; once around the window at most. */
static void move(struct lg_ycsb_inserts *inserts)
{
    uint64_t done = atomic_load(&inserts->acknowledged), limit = done + YCSB_INSERT_WINDOW;

    while (done < limit && atomic_load(place_of(inserts, done)))
        atomic_store(place_of(inserts, done++), 0);
    atomic_store_explicit(&inserts->acknowledged, done, memory_order_release);
}

bool lg_ycsb_inserts_acknowledge(struct lg_ycsb_inserts *inserts, int64_t number)
{
    if (atomic_exchange(place_of(inserts, (uint64_t)number), 1))
        return false;
    /* Whoever finds another one moving leaves it to that one, which looks again after it. */
    while (atomic_load(place_of(inserts, atomic_load(&inserts->acknowledged))) &&
           !atomic_flag_test_and_set(&inserts->moving)) {
        move(inserts);
        atomic_flag_clear(&inserts->moving);
    }
    return true;
}

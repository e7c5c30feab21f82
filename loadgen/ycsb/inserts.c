/* See inserts.h. */
#include "inserts.h"

#include "support.h"

#include <sys/mman.h>

struct lg_ycsb_inserts *lg_ycsb_inserts_open(const char *shared, struct tb_error *error)
{
    return tb_shared_memory(shared, sizeof(struct lg_ycsb_inserts), error);
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

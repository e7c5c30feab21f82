#include "timers.h"

void lg_timers_init(struct lg_timers *timers, size_t capacity)
{
    timers->heap = tb_allocate(capacity, sizeof *timers->heap);
    timers->count = 0;
}

void lg_timers_free(struct lg_timers *timers)
{
    free(timers->heap);
}

void lg_timers_add(struct lg_timers *timers, uint64_t due_ns, void *who)
{
    size_t at = timers->count++;
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (timers->heap[parent].due_ns <= due_ns)
            break;
        timers->heap[at] = timers->heap[parent];
        at = parent;
    }
    timers->heap[at] = (struct lg_timer){due_ns, who};
}

uint64_t lg_timers_next(const struct lg_timers *timers)
{
    return timers->count ? timers->heap[0].due_ns : UINT64_MAX;
}

struct lg_timer lg_timers_take(struct lg_timers *timers)
{
    struct lg_timer first = timers->heap[0];
    struct lg_timer last = timers->heap[--timers->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->count)
            break;
        if (child + 1 < timers->count &&
            timers->heap[child + 1].due_ns < timers->heap[child].due_ns)
            child++;
        if (last.due_ns <= timers->heap[child].due_ns)
            break;
        timers->heap[at] = timers->heap[child];
        at = child;
    }
    timers->heap[at] = last;
    return first;
}

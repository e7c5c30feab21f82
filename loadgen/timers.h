/* Wake-up times: a binary heap by due time. An entry is in it once. */
#pragma once

#include "native.h"

struct lg_timers {
    struct lg_timer {
        uint64_t due_ns;
        void *who;
    } *heap;
    size_t count;
};

/* Room for everybody who may wait at once. */
void lg_timers_init(struct lg_timers *timers, size_t capacity);
void lg_timers_free(struct lg_timers *timers);
void lg_timers_add(struct lg_timers *timers, uint64_t due_ns, void *who);
/* The due time of the first, UINT64_MAX where there is none. */
uint64_t lg_timers_next(const struct lg_timers *timers);
struct lg_timer lg_timers_take(struct lg_timers *timers);

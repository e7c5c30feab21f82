/* INDEX: mb_level_hash, mb_fast_fair or mb_woart. */
#include "arm.h"
#include "indexes/index.h"

#include <stdlib.h>

static const struct mb_policy policy = {.flush = MB_NO_FLUSH, .fence = MB_NO_FENCE};
static struct mb_index here = {.policy = &policy};

void arm_open(size_t bytes)
{
    bytes -= 1 << 20; /* what malloc adds has been touched as well */
    here.arena = (struct mb_arena){.base = aligned_alloc(4096, bytes), .size_bytes = bytes,
                                   .chunk_bytes = 1 << 16};
    if (!here.arena.base || !INDEX.open(&here))
        abort();
}

void arm_insert(uint64_t key, uint64_t value)
{
    if (!INDEX.insert(&here, key, value))
        abort();
}

uint64_t arm_read(uint64_t key)
{
    uint64_t value;
    return INDEX.read(&here, key, &value) ? value : 0;
}

/* Lost updates, wrong values, and counts of flushes: what is learned of an index afterwards. */
#include "checked.h"

enum { SEEN_LINES = 4096, ROUNDS = 50 };
/* No measured write of a thread has such a number. */
#define FIRST_ROUND (UINT64_C(1) << 31)

uint64_t mb_value_of(uint64_t key, uint64_t writes)
{
    return writes << 32 | (tb_mix(key) & UINT32_MAX);
}

bool mb_finds(const struct mb_index_kind *kind, const struct mb_index *index, uint64_t key)
{
    uint64_t value;
    return kind->read(index, key, &value) && (value & UINT32_MAX) == (tb_mix(key) & UINT32_MAX);
}

/* ---- lost updates ---- */

struct updates {
    const struct mb_index_kind *kind;
    struct mb_index *index;
    const uint64_t *keys;
    uint64_t count;
    bool kept;
    pthread_t thread;
};

static bool has_update(const struct updates *updates, uint64_t key, uint64_t round)
{
    uint64_t value = 0;
    return updates->kind->read(updates->index, key, &value) &&
           value == mb_value_of(key, FIRST_ROUND + round);
}

static void *update_own(void *of)
{
    struct updates *updates = of;
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (uint64_t i = 0; updates->kept && i < updates->count; i++) {
            uint64_t key = updates->keys[i], value = mb_value_of(key, FIRST_ROUND + round);
            updates->kept = updates->kind->update(updates->index, key, value) &&
                            has_update(updates, key, round);
        }
    return NULL;
}

bool mb_keeps_updates(const struct mb_index_kind *kind, struct mb_index *index,
                      const uint64_t *keys, uint32_t threads, uint64_t each)
{
    struct updates *updates = tb_allocate(threads, sizeof *updates);
    uint32_t started = 0;
    while (started < threads) {
        struct updates *own = &updates[started];
        *own = (struct updates){kind, index, &keys[started * each], each, true, 0};
        if (pthread_create(&own->thread, NULL, update_own, own) != 0)
            break;
        started++;
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(updates[i].thread, NULL);
    bool kept = started == threads;
    for (uint32_t i = 0; i < started; i++)
        for (uint64_t j = 0; kept && j < each; j++)
            kept = updates[i].kept && has_update(&updates[i], updates[i].keys[j], ROUNDS - 1);
    free(updates);
    return kept;
}

/* ---- counts of flushes ---- */

static struct {
    struct mb_flush_counts *counts;
    bool flushes, fences; /* whether there are any */
    struct {
        uintptr_t line;
        bool stored;
    } seen[SEEN_LINES]; /* lines that were flushed lately, by their address */
} counter;

static void counted_write(void *to, const void *from, size_t bytes)
{
    uintptr_t line = mb_line_of(to);
    memcpy(to, from, bytes);
    if (counter.seen[line / MB_LINE % SEEN_LINES].line == line)
        counter.seen[line / MB_LINE % SEEN_LINES].stored = true;
}

static void counted_flush(const void *at, size_t bytes)
{
    uintptr_t line = mb_line_of(at), place = line / MB_LINE % SEEN_LINES;
    if (!counter.flushes)
        return;
    counter.counts->flushes++;
    counter.counts->redundant += counter.seen[place].line == line && !counter.seen[place].stored;
    counter.seen[place].line = line;
    counter.seen[place].stored = false;
}

static void counted_fence(void) { counter.counts->fences += counter.fences; }

struct mb_policy mb_counting(const struct mb_policy *policy, struct mb_flush_counts *counts)
{
    static const struct mb_medium medium = {"counted", counted_write, counted_flush,
                                            counted_fence};
    struct mb_policy counting = *policy;
    memset(&counter, 0, sizeof counter);
    counter.counts = counts;
    counter.flushes = policy->flush != MB_NO_FLUSH;
    counter.fences = policy->fence != MB_NO_FENCE;
    counting.medium = &medium;
    return counting;
}

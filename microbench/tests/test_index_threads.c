/*
 * Threads that share an index. Each has keys of its own, among those of the others: it inserts,
 * updates and removes them, and says what was acknowledged. The others read them: what they find is
 * no older than what had been acknowledged before they looked, and no newer than what is under way.
 * In the end all of it is there, also after recovery. Meant for the thread sanitizer.
 */
#include "check.h"
#include "../indexes/index.h"

enum { THREADS = 4, KEYS = 2000, ROUNDS = 20, ARENA_BYTES = 16 << 20, CHUNK = 1 << 16,
       REMOVED = 1 << 16 /* a value's bit: the key goes */ };

static struct {
    const struct mb_index_kind *kind;
    struct mb_index index;
    /* Of each key, by its thread: the change that is under way, and the last one that is done. */
    _Atomic uint64_t begun[THREADS][KEYS], done[THREADS][KEYS];
    _Atomic size_t wrong;
} shared;

/* Neighbours belong to different threads; half of the keys are far from each other. */
static uint64_t key_of(size_t thread, size_t number)
{
    uint64_t key = number * THREADS + thread + 1;
    return number % 2 ? key : key * UINT64_C(0x9e3779b97f4a7c15) % MB_KEY_MOST + 1;
}

static void expect(bool right)
{
    if (!right)
        atomic_fetch_add(&shared.wrong, 1);
}

/* Changes are numbered from 1; a number with REMOVED leaves nothing. */
static void change(size_t thread, size_t number, uint64_t next)
{
    uint64_t key = key_of(thread, number), last = shared.done[thread][number];
    bool there = last && !(last & REMOVED);
    atomic_store(&shared.begun[thread][number], next);
    if (next & REMOVED)
        expect(shared.kind->remove(&shared.index, key) == there);
    else if (there)
        expect(shared.kind->update(&shared.index, key, next));
    else
        expect(shared.kind->insert(&shared.index, key, next));
    atomic_store(&shared.done[thread][number], next);
}

static void look(size_t thread, size_t number)
{
    uint64_t least = atomic_load(&shared.done[thread][number]), value = 0;
    bool there = shared.kind->read(&shared.index, key_of(thread, number), &value);
    uint64_t most = atomic_load(&shared.begun[thread][number]);
    uint64_t from = least & ~(uint64_t)REMOVED, to = most & ~(uint64_t)REMOVED;
    if (there)
        expect(value >= from && value <= to && !(value == from && least & REMOVED));
    else /* it is not there yet, or was removed */
        expect(least == 0 || least & REMOVED || to > from);
}

static void *work(void *of)
{
    size_t thread = (size_t)(uintptr_t)of;
    struct tb_random random;
    tb_random_seed(&random, 1, thread);
    for (uint64_t round = 1; round <= ROUNDS; round++)
        for (size_t number = 0; number < KEYS; number++) {
            uint64_t draw = tb_random_next(&random), last = shared.done[thread][number];
            bool removes = last && !(last & REMOVED) && draw % 4 == 0;
            change(thread, number, round | (removes ? REMOVED : 0));
            look(thread, number);
            look(draw >> 8 & (THREADS - 1), (draw >> 16) % KEYS);
        }
    return NULL;
}

static void check_all(const struct mb_index *index)
{
    for (size_t thread = 0; thread < THREADS; thread++)
        for (size_t number = 0; number < KEYS; number++) {
            uint64_t last = shared.done[thread][number], value = 0;
            bool there = shared.kind->read(index, key_of(thread, number), &value);
            CHECK_CASE(there == !(last & REMOVED) && (!there || value == last), number);
        }
}

static void share(const struct mb_index_kind *kind)
{
    static const struct mb_policy policy = {.discipline = MB_DESIGNED};
    static struct mb_sharing sharing;
    pthread_t threads[THREADS];
    memset(&sharing, 0, sizeof sharing);
    memset(&shared, 0, sizeof shared);
    sharing.threads = THREADS;
    shared.kind = kind;
    shared.index = (struct mb_index){.arena = {.base = aligned_alloc(4096, ARENA_BYTES),
                                               .size_bytes = ARENA_BYTES, .chunk_bytes = CHUNK},
                                     .policy = &policy, .sharing = &sharing};
    CHECK(kind->open(&shared.index));
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_CASE(shared.wrong == 0, shared.wrong);
    check_all(&shared.index);
    struct mb_index again = shared.index;
    again.sharing = NULL;
    CHECK(kind->recover(&again));
    check_all(&again);
    free(shared.index.arena.base);
}

int main(void)
{
    share(&mb_level_hash);
    share(&mb_fast_fair);
    return checks_failed();
}

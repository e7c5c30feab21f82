/*
 * Level hashing (Zuo, Hua and Wu, OSDI'18, section 3): two levels of buckets, the top one twice as
 * large. A key has two buckets in each; one item may be moved to its other bucket of the same
 * level to make room; when that fails a level twice as large becomes the top, and the items
 * of the bottom one are inserted into it.
 *
 * A slot is key, value and token, one after the other in a line (BENTŌ, section 3.2.1). As in the
 * programs measured there, insert and update flush each of the three: two of these flushes,
 * and one fence, are not needed where a line becomes durable in the order of its stores.
 *
 * Threads that share it lock the buckets of their key (by stripes of the table), also to move an item
 * out of them; a resize locks the whole. Readers take no lock: they look again where a stripe of
 * theirs, or the table, changed meanwhile.
 *
 * An item that was being moved, or drained from a level that is to go, may be found twice after
 * a cut: `recover` completes the drain and removes the second one.
 */
#include "index.h"

enum { SLOTS = 4, BUCKETS_FIRST = 4 };

struct slot {
    uint64_t key, value;
    uint64_t token; /* 1: taken */
    uint64_t unused;
};
struct bucket {
    struct slot slots[SLOTS];
};
/* Offsets; buckets: of the top level. */
struct levels {
    uint64_t top, bottom;
    uint64_t draining; /* half as large as the bottom; 0: none */
    uint64_t buckets;
    uint64_t unused[4];
};
/* `current` says which of the two holds: they change whole. */
struct root {
    uint64_t current;
    uint64_t unused[7];
    struct levels levels[2];
};

static struct root *root_of(const struct mb_index *index)
{
    return mb_arena_at(&index->arena, MB_ARENA_ROOT);
}

static const struct levels *levels_of(const struct mb_index *index)
{
    struct root *root = root_of(index);
    return &root->levels[root->current & 1];
}

/* Its two hash values are the halves of this. */
static uint64_t mixed(uint64_t key)
{
    key = (key ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    key = (key ^ key >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

/* Its buckets: one in the first half of the level, one in the second. */
struct choice {
    struct bucket *of[2];
};

static struct choice choose(const struct mb_index *index, uint64_t level, uint64_t buckets,
                            uint64_t hash)
{
    struct bucket *first = mb_arena_at(&index->arena, level);
    uint64_t half = buckets / 2;
    return (struct choice){{first + (hash & (half - 1)), first + half + (hash >> 32 & (half - 1))}};
}

/* In both levels. */
struct choices {
    struct choice top, bottom;
};

/* `changes`: while other threads may change it; atomic loads cost where they are not needed. */
MB_ALWAYS_INLINE uint64_t word_at(const uint64_t *at, bool changes)
{
    return changes ? mb_get(at) : *at;
}

MB_ALWAYS_INLINE struct choices choose_all(const struct mb_index *index, uint64_t key, bool changes)
{
    const struct root *root = root_of(index);
    const struct levels *levels = &root->levels[word_at(&root->current, changes) & 1];
    uint64_t hash = mixed(key), buckets = word_at(&levels->buckets, changes);
    return (struct choices){choose(index, word_at(&levels->top, changes), buckets, hash),
                            choose(index, word_at(&levels->bottom, changes), buckets / 2, hash)};
}

MB_ALWAYS_INLINE struct slot *taken_in(const struct choice *choice, uint64_t key, bool changes)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < SLOTS; j++)
            if (word_at(&choice->of[i]->slots[j].key, changes) == key &&
                word_at(&choice->of[i]->slots[j].token, changes))
                return &choice->of[i]->slots[j];
    return NULL;
}

/* The emptier bucket's, as both are filled in turn. */
static struct slot *free_in(const struct choice *choice)
{
    for (int j = 0; j < SLOTS; j++)
        for (int i = 0; i < 2; i++)
            if (!choice->of[i]->slots[j].token)
                return &choice->of[i]->slots[j];
    return NULL;
}

MB_ALWAYS_INLINE struct slot *find_in(const struct choices *choices, uint64_t key, bool changes)
{
    struct slot *found = taken_in(&choices->top, key, changes);
    return found ? found : taken_in(&choices->bottom, key, changes);
}

static struct slot *find(const struct mb_index *index, uint64_t key)
{
    struct choices choices = choose_all(index, key, false);
    return find_in(&choices, key, false);
}

/* ---- locks, where threads share it ---- */

/* One for each bucket of a key, and of an item that is moved. */
struct held {
    _Atomic uint32_t *locks[5];
    int count;
    bool missed; /* the last of them: another thread has it */
};

static _Atomic uint32_t *stripe_of(const struct mb_index *index, const struct bucket *bucket)
{
    uint64_t offset = (uint64_t)((const char *)bucket - index->arena.base);
    return &index->sharing->stripes[offset / sizeof *bucket % MB_STRIPES];
}

/* Different ones, in their order: two threads cannot wait for each other. */
static struct held stripes_of(const struct mb_index *index, const struct choices *choices)
{
    struct bucket *const buckets[] = {choices->top.of[0], choices->top.of[1],
                                      choices->bottom.of[0], choices->bottom.of[1]};
    struct held held = {.count = 0};
    for (int i = 0; i < 4; i++) {
        _Atomic uint32_t *lock = stripe_of(index, buckets[i]);
        int at = held.count;
        while (at > 0 && held.locks[at - 1] > lock)
            at--;
        if (at > 0 && held.locks[at - 1] == lock)
            continue;
        for (int j = held.count++; j > at; j--)
            held.locks[j] = held.locks[j - 1];
        held.locks[at] = lock;
    }
    return held;
}

static void let_go(struct held *held)
{
    while (held->count > 0)
        mb_unlock(held->locks[--held->count]);
}

/* A key's buckets, locked. */
static struct choices hold(const struct mb_index *index, uint64_t key, struct held *held)
{
    *held = (struct held){.count = 0};
    if (!index->sharing)
        return choose_all(index, key, false);
    for (;;) {
        uint32_t whole = mb_unlocked(&index->sharing->whole);
        struct choices choices = choose_all(index, key, true);
        if (atomic_load(&index->sharing->whole) != whole)
            continue; /* they may be of no levels */
        *held = stripes_of(index, &choices);
        for (int i = 0; i < held->count; i++)
            mb_lock(held->locks[i]);
        if (atomic_load(&index->sharing->whole) == whole)
            return choices;
        let_go(held);
    }
}

/* One more, which is not waited for. */
static bool hold_too(const struct mb_index *index, const struct bucket *bucket, struct held *held)
{
    if (!index->sharing)
        return true;
    _Atomic uint32_t *lock = stripe_of(index, bucket);
    for (int i = 0; i < held->count; i++)
        if (held->locks[i] == lock)
            return true;
    held->missed = !mb_try_lock(lock);
    if (!held->missed)
        held->locks[held->count++] = lock;
    return !held->missed;
}

/* ---- changes ---- */

MB_ALWAYS_INLINE void persist(const struct mb_policy *policy, struct slot *slot)
{
    mb_flush_extra(policy, &slot->key);
    mb_fence_added_extra(policy);
    mb_flush_extra(policy, &slot->value);
    mb_fence_extra(policy);
    mb_put(policy, &slot->token, 1);
    mb_flush(policy, &slot->token);
    mb_fence(policy);
}

MB_ALWAYS_INLINE void put_item(const struct mb_policy *policy, struct slot *slot, uint64_t key,
                               uint64_t value)
{
    mb_put(policy, &slot->key, key);
    mb_put(policy, &slot->value, value);
    persist(policy, slot);
}

static void fill(const struct mb_policy *policy, struct slot *slot, uint64_t key, uint64_t value)
{
    const struct mb_policy designed = mb_designed(policy);
    if (mb_is_designed(policy))
        put_item(&designed, slot, key, value);
    else
        put_item(policy, slot, key, value);
}

/* A slot of one of the two buckets, whose item goes to its other bucket; NULL: none can now. */
static struct slot *make_room(struct mb_index *index, uint64_t level, uint64_t buckets,
                              const struct choice *choice, struct held *held)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < SLOTS; j++) {
            struct slot *old = &choice->of[i]->slots[j];
            struct choice its = choose(index, level, buckets, mixed(old->key));
            int before = held->count;
            if (!hold_too(index, its.of[1 - i], held))
                return NULL;
            for (int k = 0; k < SLOTS; k++) {
                struct slot *other = &its.of[1 - i]->slots[k];
                if (other->token)
                    continue;
                fill(index->policy, other, old->key, old->value);
                mb_put(index->policy, &old->token, 0); /* its line is flushed with the new item */
                return old;
            }
            if (held->count > before)
                mb_unlock(held->locks[--held->count]);
        }
    return NULL;
}

static struct slot *slot_in(struct mb_index *index, const struct choices *choices,
                            struct held *held)
{
    const struct levels *levels = levels_of(index);
    struct slot *found = free_in(&choices->top);
    if (!found)
        found = free_in(&choices->bottom);
    if (!found)
        found = make_room(index, levels->top, levels->buckets, &choices->top, held);
    if (!found && !held->missed)
        found = make_room(index, levels->bottom, levels->buckets / 2, &choices->bottom, held);
    return found;
}

/* Empty; the fence comes with what refers to it. */
static uint64_t new_level(struct mb_index *index, uint64_t buckets)
{
    const struct mb_policy *policy = index->policy;
    uint64_t offset = mb_arena_take(&index->arena, policy, buckets * sizeof(struct bucket), MB_LINE);
    struct bucket *level = mb_arena_at(&index->arena, offset);
    if (!offset)
        return 0;
    for (uint64_t i = 0; i < buckets; i++) {
        for (int j = 0; j < SLOTS; j++)
            mb_put(policy, &level[i].slots[j].token, 0);
        mb_flush_all(policy, &level[i], sizeof level[i]);
        mb_fence_added(policy);
    }
    return offset;
}

static void set_levels(struct mb_index *index, const struct levels *levels)
{
    const struct mb_policy *policy = index->policy;
    struct root *root = root_of(index);
    uint64_t other = 1 - (root->current & 1);
    struct levels *to = &root->levels[other];
    mb_put(policy, &to->top, levels->top);
    mb_put(policy, &to->bottom, levels->bottom);
    mb_put(policy, &to->draining, levels->draining);
    mb_put(policy, &to->buckets, levels->buckets);
    mb_flush(policy, to);
    mb_fence(policy);
    mb_commit(policy, &root->current, other); /* before the next ones take the place of the old */
}

/*
 * The items of the level that is to go are inserted into the new one, each into a bucket of the
 * half that it was in: of a bucket's items all come from one old bucket, so that there is always
 * room. After a cut some of them are there.
 */
static void drain(struct mb_index *index, bool cut)
{
    struct levels levels = *levels_of(index);
    const struct bucket *from = mb_arena_at(&index->arena, levels.draining);
    uint64_t buckets = levels.buckets / 4;
    for (uint64_t i = 0; i < buckets; i++)
        for (int j = 0; j < SLOTS; j++) {
            const struct slot *item = &from[i].slots[j];
            if (!item->token || (cut && find(index, item->key)))
                continue;
            struct choice its = choose(index, levels.top, levels.buckets, mixed(item->key));
            its.of[0] = its.of[1] = its.of[i >= buckets / 2];
            fill(index->policy, free_in(&its), item->key, item->value);
        }
    levels.draining = 0;
    set_levels(index, &levels);
}

static bool resize(struct mb_index *index)
{
    const struct levels *old = levels_of(index);
    struct levels levels = {.bottom = old->top, .draining = old->bottom,
                            .buckets = 2 * old->buckets};
    levels.top = new_level(index, levels.buckets);
    if (!levels.top)
        return false;
    set_levels(index, &levels);
    drain(index, false);
    return true;
}

/* Unless another thread has done so since there were so many buckets. */
static bool grow(struct mb_index *index, uint64_t buckets)
{
    if (!index->sharing)
        return resize(index);
    mb_lock(&index->sharing->whole);
    for (int i = 0; i < MB_STRIPES; i++) /* whoever has one; others see that the whole is locked */
        mb_unlocked(&index->sharing->stripes[i]);
    bool room = levels_of(index)->buckets != buckets || resize(index);
    mb_unlock(&index->sharing->whole);
    return room;
}

static bool make(struct mb_index *index)
{
    struct levels levels = {.buckets = BUCKETS_FIRST};
    if (!mb_arena_open(&index->arena, index->policy, sizeof(struct root)))
        return false;
    levels.top = new_level(index, levels.buckets);
    levels.bottom = new_level(index, levels.buckets / 2);
    if (!levels.top || !levels.bottom)
        return false;
    set_levels(index, &levels);
    return true;
}

/* The other one of an item that was being moved. */
static void remove_twins(struct mb_index *index, uint64_t level, uint64_t buckets)
{
    struct bucket *first = mb_arena_at(&index->arena, level);
    for (uint64_t i = 0; i < buckets; i++)
        for (int j = 0; j < SLOTS; j++) {
            struct slot *slot = &first[i].slots[j];
            if (slot->token && find(index, slot->key) != slot) {
                mb_put(index->policy, &slot->token, 0);
                mb_flush(index->policy, &slot->token); /* fenced with the next change */
                mb_fence_added(index->policy);
            }
        }
}

static bool recover(struct mb_index *index)
{
    mb_arena_recover(&index->arena);
    const struct levels *levels = levels_of(index);
    remove_twins(index, levels->top, levels->buckets);
    remove_twins(index, levels->bottom, levels->buckets / 2);
    if (levels->draining)
        drain(index, true);
    return true;
}

static void set_value(const struct mb_policy *policy, struct slot *slot, uint64_t value)
{
    mb_put(policy, &slot->value, value);
    persist(policy, slot);
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct held held;
    struct choices choices = hold(index, key, &held);
    struct slot *slot = find_in(&choices, key, false);
    if (slot)
        set_value(index->policy, slot, value);
    let_go(&held);
    return slot;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    for (unsigned tries = 0;; tries++) {
        struct held held;
        struct choices choices = hold(index, key, &held);
        uint64_t buckets = levels_of(index)->buckets;
        struct slot *slot = find_in(&choices, key, false);
        if (slot)
            set_value(index->policy, slot, value);
        else if ((slot = slot_in(index, &choices, &held)))
            fill(index->policy, slot, key, value);
        let_go(&held);
        if (slot)
            return true;
        if (held.missed)
            mb_wait_for_lock(tries);
        else if (!grow(index, buckets))
            return false;
    }
}

/* Without a lock, where threads share it. */
static bool look_up_shared(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    for (;;) {
        uint32_t whole = mb_unlocked(&index->sharing->whole), versions[4];
        struct choices choices = choose_all(index, key, true);
        if (atomic_load(&index->sharing->whole) != whole)
            continue;
        struct held watched = stripes_of(index, &choices);
        for (int i = 0; i < watched.count; i++)
            versions[i] = mb_unlocked(watched.locks[i]);
        const struct slot *slot = find_in(&choices, key, true);
        uint64_t found = slot ? mb_get(&slot->value) : 0;
        bool same = atomic_load(&index->sharing->whole) == whole;
        for (int i = 0; i < watched.count; i++)
            same &= atomic_load(watched.locks[i]) == versions[i];
        if (!same)
            continue;
        if (slot)
            *value = found;
        return slot;
    }
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    if (index->sharing)
        return look_up_shared(index, key, value);
    const struct slot *slot = find(index, key);
    if (slot)
        *value = slot->value;
    return slot;
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    struct held held;
    struct choices choices = hold(index, key, &held);
    struct slot *slot = find_in(&choices, key, false);
    if (slot)
        mb_commit(index->policy, &slot->token, 0);
    let_go(&held);
    return slot;
}

const struct mb_index_kind mb_level_hash = {
    .name = "level_hash",
    .disciplines = {[MB_DESIGNED] = true, [MB_FF] = true, [MB_SFF] = true, [MB_OPTIMIZED] = true},
    .shares = true,
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
};

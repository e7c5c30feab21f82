/*
 * The search over an index with planted places: a fence after a fence, and a flush of a line in
 * which nothing was stored, go; the flushes and fences that it needs stay.
 */
#include "index_cuts.h"

enum { SLOTS = 128 };
/* A value holds where its key is there; they are on lines of their own. */
struct table {
    uint64_t keys[SLOTS], values[SLOTS];
};

static struct table *table_of(const struct mb_index *index)
{
    return mb_arena_at(&index->arena, 0);
}

static size_t slot_of(const struct mb_index *index, uint64_t key)
{
    const struct table *table = table_of(index);
    size_t slot = 0;
    while (slot < SLOTS && table->keys[slot] != key)
        slot++;
    return slot;
}

static void planted_fence(const struct mb_policy *policy) { mb_fence(policy); }

static void planted_flush(const struct mb_policy *policy, const uint64_t *at)
{
    mb_flush(policy, at);
}

static bool make(struct mb_index *index)
{
    struct table *table = table_of(index);
    for (size_t slot = 0; slot < SLOTS; slot++)
        mb_put(index->policy, &table->keys[slot], 0);
    mb_flush_all(index->policy, table->keys, sizeof table->keys);
    mb_fence(index->policy);
    return true;
}

static bool recover(struct mb_index *index) { return table_of(index); }

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    size_t slot = slot_of(index, key);
    if (slot < SLOTS)
        mb_commit(index->policy, &table_of(index)->values[slot], value);
    return slot < SLOTS;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    const struct mb_policy *policy = index->policy;
    struct table *table = table_of(index);
    size_t slot = slot_of(index, 0);
    if (slot == SLOTS)
        return false;
    mb_put(policy, &table->values[slot], value);
    mb_flush(policy, &table->values[slot]);
    mb_fence(policy);
    planted_fence(policy);
    planted_flush(policy, &table->keys[slot]);
    mb_commit(policy, &table->keys[slot], key);
    return true;
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    size_t slot = slot_of(index, key);
    if (slot < SLOTS)
        *value = table_of(index)->values[slot];
    return slot < SLOTS;
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    size_t slot = slot_of(index, key);
    if (slot < SLOTS)
        mb_commit(index->policy, &table_of(index)->keys[slot], 0);
    return slot < SLOTS;
}

static const struct mb_index_kind table_kind = {
    .name = "table",
    .disciplines = {[MB_DESIGNED] = true},
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
};

int main(void)
{
    enum { PLACES = 12, PLANTED = 2, LEAST = 20000 };
    prepare_cuts(&table_kind, NULL);
    CHECK(search(MB_DESIGNED, LEAST));
    CHECK(seen->states >= LEAST);
    CHECK(site_count == PLACES);
    CHECK(left_out == PLANTED);
    for (size_t i = 0; i < site_count; i++) {
        const struct site *site = &sites[i];
        bool fence = strcmp(site->at.function, "planted_fence") == 0;
        bool flush = strcmp(site->at.function, "planted_flush") == 0;
        CHECK_CASE(site->left_out == (fence || flush), site->at.line);
        CHECK_CASE(site->redundant == fence, site->at.line);
    }
    return checks_failed();
}

/*
 * FAST&FAIR (Hwang, Kim, Won and Nam, FAST'18): a B+-tree whose nodes are sorted in place. An
 * insert shifts entries by stores in such an order that each of them leaves a node that a reader
 * understands; a flush and a fence come only where the shift crosses a line. A split links
 * the new sibling before anything is taken from the node, so that it is found in between.
 *
 * A reader must know which of two equal neighbours is the entry that is being copied. The paper
 * compares pointers, as its values are addresses of records. Here a value is any word, so that
 * keys are compared: of equal neighbours the left one holds. A key that is being put in is a gap
 * until its value is there. The stores of an insert are as many as the paper's.
 *
 * Readers take no lock. They go through a node against the direction in which a writer may shift
 * (`removals`), so that no entry passes them, and follow a sibling where the key is no longer in the
 * node. They may read what is not durable yet. A writer locks its node, and while a split goes on
 * also the new one and then the parent: locks are taken to the right and upwards alone.
 *
 * Nodes are never merged. `recover` removes what an unfinished shift or split has left, and gives
 * each sibling that no parent knows its entry there; all of it by the same steps, so that it may be
 * cut as well. As it meets every node, it knows which memory is in use: no border (arena.h) is
 * kept, and a node that a cut left without a sibling's link is free again.
 */
#include "index.h"

#ifndef MB_FAST_FAIR_NODE_BYTES
#define MB_FAST_FAIR_NODE_BYTES 512
#endif
#define END UINT64_MAX         /* no entry, and none after it */
#define GAP (UINT64_MAX - 1)   /* no entry; others may follow */

struct entry {
    uint64_t key, value;
};
/* Offsets. Of an inner node, `first` is the child of keys below its first entry's. */
struct node {
    uint64_t first;
    uint64_t sibling;
    uint64_t low;   /* no key is below it */
    union {
        struct {
            uint8_t level; /* 0: leaf */
            /* Not durable: */
            _Atomic uint8_t locked;
            _Atomic uint16_t count;    /* of entries */
            _Atomic uint32_t removals; /* twice; odd while entries are shifted to the left */
        };
        uint64_t level_word; /* with nothing but the level */
    };
    struct entry entries[];
};
/* One entry is the end. */
enum {
    ENTRIES = (MB_FAST_FAIR_NODE_BYTES - sizeof(struct node)) / sizeof(struct entry),
    MOST = ENTRIES - 1
};
/* The arena begins with it; nodes are aligned to their size. */
struct root {
    uint64_t node;
    uint64_t unused[7];
};

static struct root *root_of(const struct mb_index *index)
{
    return mb_arena_at(&index->arena, 0);
}

static struct node *node_at(const struct mb_index *index, uint64_t offset)
{
    return mb_arena_at(&index->arena, offset);
}

static uint64_t offset_of(const struct mb_index *index, const struct node *node)
{
    return (uint64_t)((const char *)node - index->arena.base);
}

static bool on_one_line(const void *one, const void *other)
{
    return mb_line_of(one) == mb_line_of(other);
}

/* ---- one node: shifts (FAST) ---- */

static int count_of(const struct node *node)
{
    return atomic_load_explicit(&node->count, memory_order_acquire);
}

static void set_count(struct node *node, uint32_t count)
{
    atomic_store_explicit(&node->count, (uint16_t)count, memory_order_release);
}

/* The last entry of a node with a key up to the one that is looked for. */
struct found {
    int place; /* -1: all are above it */
    uint64_t key, value; /* -1: value is the node's `first` */
    bool last; /* none follows it */
};

/* Place, key and `last`, while entries are shifted to the left, or a key is being put in. */
static struct found go_through(const struct node *node, uint64_t key, bool to_the_left)
{
    struct found found = {.place = -1};
    int count = count_of(node), at = to_the_left ? count - 1 : 0;
    uint64_t there = 0;
    if (to_the_left) {
        bool last = true;
        for (; at >= 0 && (there = mb_get(&node->entries[at].key)) > key; at--)
            last &= there >= GAP;
        return (struct found){.place = at, .key = there, .last = last};
    }
    for (; (there = mb_get(&node->entries[at].key)) <= key || there == GAP; at++)
        if (there != GAP)
            found = (struct found){.place = at, .key = there};
    found.last = there == END;
    return found;
}

/* Its key is also that of the entry to the left, which holds. */
MB_ALWAYS_INLINE bool is_twin(const struct entry *entries, const struct found *found)
{
    return found->place > 0 && mb_get(&entries[found->place - 1].key) == found->key;
}

/*
 * Without a lock; `shared`: again where a writer came in between. Linear, as in the paper: misses of
 * a node's lines overlap, and one branch alone is hard to predict.
 */
MB_ALWAYS_INLINE struct found look(const struct node *node, uint64_t key, bool shared)
{
    const struct entry *entries = node->entries;
    for (;;) {
        uint32_t removals =
            shared ? atomic_load_explicit(&node->removals, memory_order_acquire) : 0;
        uint64_t there, before = 0;
        int at = 0;
        for (; (there = mb_get(&entries[at].key)) <= key; at++)
            before = there;
        struct found found = {.place = at - 1, .key = before, .last = there == END};
        if (shared && (removals & 1 || there == GAP))
            found = go_through(node, key, removals & 1);
        if (shared && is_twin(entries, &found)) {
            __asm__ volatile(""); /* a branch: the value's line need not wait for the key */
            found.place--;
        }
        bool whole = true;
        if (found.place < 0) {
            found.value = mb_get(&node->first);
        } else {
            found.value = mb_get(&entries[found.place].value);
            whole = !shared || (mb_get(&entries[found.place].key) == found.key &&
                                !is_twin(entries, &found));
        }
        if (!shared || (whole && atomic_load_explicit(&node->removals, memory_order_acquire) ==
                                     removals))
            return found;
    }
}

/* Redundant: of the stores to a line the last one's flush is enough. */
MB_ALWAYS_INLINE void after_store(const struct mb_policy *policy, const void *at)
{
    if (policy->discipline == MB_UNAWARE) {
        mb_flush_extra(policy, at);
        mb_fence_extra(policy);
    }
}

/* A whole node: no gaps, no twins, room for one more. */
MB_ALWAYS_INLINE void shift_in(const struct mb_policy *policy, struct node *node, uint32_t place,
                               uint64_t key, uint64_t value)
{
    struct entry *entries = node->entries;
    uint32_t count = (uint32_t)count_of(node);
    bool persists = policy->medium || policy->flush || policy->fence;
    mb_put(policy, &entries[count + 1].key, END);
    if (!on_one_line(&entries[count + 1], &entries[count])) {
        mb_flush(policy, &entries[count + 1]);
        mb_fence(policy);
    }
    for (uint32_t i = count; i > place; i--) {
        mb_put(policy, &entries[i].key, entries[i - 1].key);
        after_store(policy, &entries[i]);
        mb_put(policy, &entries[i].value, entries[i - 1].value);
        if (persists && !on_one_line(&entries[i], &entries[i - 1])) {
            mb_flush(policy, &entries[i]);
            mb_fence(policy);
        } else {
            after_store(policy, &entries[i]);
        }
    }
    if (place < count) {
        mb_put(policy, &entries[place].key, GAP);
        after_store(policy, &entries[place]);
    }
    mb_put(policy, &entries[place].value, value);
    after_store(policy, &entries[place]);
    mb_commit(policy, &entries[place].key, key);
    set_count(node, count + 1);
}

static void insert_at(const struct mb_policy *policy, struct node *node, uint32_t place,
                      uint64_t key, uint64_t value)
{
    const struct mb_policy designed = mb_designed(policy);
    if (mb_is_designed(policy))
        shift_in(&designed, node, place, key, value);
    else
        shift_in(policy, node, place, key, value);
}

/* The entries from `place` + 1 move to the left, by one; the one at `place` holds nothing. */
static void close_at(const struct mb_policy *policy, struct node *node, uint32_t place)
{
    struct entry *entries = node->entries;
    uint32_t last = (uint32_t)count_of(node) - 1, removals = node->removals;
    atomic_store_explicit(&node->removals, removals + 1, memory_order_release);
    for (uint32_t i = place; i < last; i++) {
        mb_put(policy, &entries[i].value, entries[i + 1].value);
        mb_put(policy, &entries[i].key, entries[i + 1].key);
        if (!on_one_line(&entries[i], &entries[i + 1])) {
            mb_flush(policy, &entries[i]);
            mb_fence(policy);
        }
    }
    mb_commit(policy, &entries[last].key, END);
    set_count(node, last);
    atomic_store_explicit(&node->removals, removals + 2, memory_order_release);
}

static void cut_off(const struct mb_policy *policy, struct node *node, uint32_t place)
{
    mb_commit_extra(policy, &node->entries[place].key, END); /* recover does it again */
    set_count(node, place);
}

/* ---- the tree: splits (FAIR) ---- */

static struct node *new_node(struct mb_index *index, uint64_t first, uint64_t sibling, uint64_t low,
                             uint32_t level)
{
    const struct mb_policy *policy = index->policy;
    uint64_t offset = __atomic_fetch_add(&index->arena.next, MB_FAST_FAIR_NODE_BYTES,
                                         __ATOMIC_RELAXED);
    struct node *node = node_at(index, offset);
    if (offset + MB_FAST_FAIR_NODE_BYTES > index->arena.size_bytes)
        return NULL;
    mb_put(policy, &node->first, first);
    mb_put(policy, &node->sibling, sibling);
    mb_put(policy, &node->low, low);
    mb_put(policy, &node->level_word, level);
    mb_put(policy, &node->entries[0].key, END);
    return node;
}

static void persist_node(const struct mb_policy *policy, const struct node *node)
{
    mb_flush_all(policy, node, (size_t)((const char *)&node->entries[count_of(node) + 1] -
                                        (const char *)node));
    mb_fence(policy);
}

/* The sibling to which a key belongs; NULL: it belongs to the node, or is below it. */
static struct node *sibling_for(const struct mb_index *index, const struct node *node, uint64_t key)
{
    uint64_t offset = mb_get(&node->sibling);
    struct node *sibling = node_at(index, offset);
    return offset && key >= sibling->low ? sibling : NULL;
}

MB_ALWAYS_INLINE struct node *descend_in(const struct mb_index *index, uint64_t key,
                                         uint32_t level, struct found *found, bool shared)
{
    struct node *node = node_at(index, mb_get(&root_of(index)->node)), *next;
    for (;; node = next) {
        struct found here = look(node, key, shared);
        next = shared && here.last ? sibling_for(index, node, key) : NULL;
        if (!next && node->level == level) {
            *found = here;
            return node;
        }
        if (!next)
            next = node_at(index, here.value);
    }
}

static struct node *descend_shared(const struct mb_index *index, uint64_t key, uint32_t level,
                                   struct found *found)
{
    return descend_in(index, key, level, found, true);
}

/* The node of a level on the way to a key, and what it has of it. */
MB_ALWAYS_INLINE struct node *descend(const struct mb_index *index, uint64_t key, uint32_t level,
                                      struct found *found)
{
    return index->sharing ? descend_shared(index, key, level, found)
                          : descend_in(index, key, level, found, false);
}

static void lock(const struct mb_index *index, struct node *node)
{
    for (unsigned tries = 0; index->sharing && atomic_exchange(&node->locked, 1); tries++)
        mb_wait_for_lock(tries);
}

static void unlock(const struct mb_index *index, struct node *node)
{
    if (index->sharing)
        atomic_store(&node->locked, 0);
}

/* The same, locked: it may have been split meanwhile. */
static struct node *lock_for(const struct mb_index *index, uint64_t key, uint32_t level,
                             struct found *found)
{
    struct node *node = descend(index, key, level, found), *next;
    if (!index->sharing)
        return node;
    lock(index, node);
    while ((next = sibling_for(index, node, key))) {
        lock(index, next);
        unlock(index, node);
        node = next;
    }
    *found = look(node, key, false);
    return node;
}

static bool grow_root(struct mb_index *index, uint64_t low, uint64_t child)
{
    const struct mb_policy *policy = index->policy;
    struct node *old = node_at(index, root_of(index)->node);
    struct node *node = new_node(index, offset_of(index, old), 0, 0, old->level + 1);
    if (!node)
        return false;
    mb_put(policy, &node->entries[0].value, child);
    mb_put(policy, &node->entries[0].key, low);
    mb_put(policy, &node->entries[1].key, END);
    set_count(node, 1);
    persist_node(policy, node);
    mb_commit_extra(policy, &root_of(index)->node, offset_of(index, node)); /* so does this */
    return true;
}

/* The upper half of a full node, in a new one that follows it, locked; NULL: no room. */
static struct node *split(struct mb_index *index, struct node *node)
{
    const struct mb_policy *policy = index->policy;
    const struct entry *entries = node->entries;
    uint32_t count = (uint32_t)count_of(node), half = count / 2;
    uint32_t from = node->level ? half + 1 : half;
    struct node *upper = new_node(index, node->level ? entries[half].value : 0, node->sibling,
                                  entries[half].key, node->level);
    if (!upper)
        return NULL;
    lock(index, upper);
    for (uint32_t i = from; i < count; i++) {
        mb_put(policy, &upper->entries[i - from].key, entries[i].key);
        mb_put(policy, &upper->entries[i - from].value, entries[i].value);
    }
    mb_put(policy, &upper->entries[count - from].key, END);
    set_count(upper, count - from);
    persist_node(policy, upper);
    mb_commit(policy, &node->sibling, offset_of(index, upper));
    cut_off(policy, node, half);
    return upper;
}

static bool insert_in_level(struct mb_index *index, uint32_t level, uint64_t key, uint64_t value);

static bool insert_in_half(struct mb_index *index, struct node *node, uint64_t key, uint64_t value)
{
    struct node *upper = split(index, node);
    if (!upper)
        return false;
    uint64_t low = upper->low, offset = offset_of(index, upper);
    bool known = node_at(index, mb_get(&root_of(index)->node)) == node
                     ? grow_root(index, low, offset)
                     : insert_in_level(index, node->level + 1, low, offset);
    struct node *half = key < low ? node : upper;
    if (known)
        insert_at(index->policy, half, (uint32_t)(look(half, key, false).place + 1), key, value);
    unlock(index, upper);
    return known;
}

/* Into the node of that level, which splits where it is full, and so its parents. */
static bool insert_in_level(struct mb_index *index, uint32_t level, uint64_t key, uint64_t value)
{
    struct found found;
    struct node *node = lock_for(index, key, level, &found);
    bool room = true;
    if (count_of(node) < MOST)
        insert_at(index->policy, node, (uint32_t)(found.place + 1), key, value);
    else
        room = insert_in_half(index, node, key, value);
    unlock(index, node);
    return room;
}

/*
 * There is room for a new node in every level, and in one that comes meanwhile, for each thread: a
 * split cannot be left half done.
 */
static bool room_for_splits(const struct mb_index *index)
{
    const struct node *root = node_at(index, mb_get(&root_of(index)->node));
    uint64_t nodes = index->sharing ? index->sharing->threads * (root->level + UINT64_C(3))
                                    : root->level + UINT64_C(2);
    return __atomic_load_n(&index->arena.next, __ATOMIC_RELAXED) +
               nodes * MB_FAST_FAIR_NODE_BYTES <= index->arena.size_bytes;
}

/* ---- recovery ---- */

/* And whatever else is not durable. */
static void count_entries(struct node *node)
{
    uint32_t count = 0;
    while (node->entries[count].key != END)
        count++;
    set_count(node, count);
    node->removals = 0;
    node->locked = 0;
}

/* Without gaps, twins, and what the sibling has as well. */
static void tidy(struct mb_index *index, struct node *node)
{
    const struct mb_policy *policy = index->policy;
    struct entry *entries = node->entries;
    count_entries(node);
    for (uint32_t i = 0; i < (uint32_t)count_of(node);) {
        if (entries[i].key == GAP || (i && entries[i].key == entries[i - 1].key))
            close_at(policy, node, i);
        else
            i++;
    }
    if (!node->sibling)
        return;
    uint64_t low = node_at(index, node->sibling)->low;
    for (uint32_t i = 0; i < (uint32_t)count_of(node); i++)
        if (entries[i].key >= low) {
            cut_off(policy, node, i);
            return;
        }
}

static bool recover(struct mb_index *index)
{
    struct found found;
    struct node *first = node_at(index, root_of(index)->node);
    index->arena.next = MB_FAST_FAIR_NODE_BYTES;
    for (struct node *down = first;; down = node_at(index, down->first)) {
        for (struct node *node = down;; node = node_at(index, node->sibling)) {
            uint64_t end = offset_of(index, node) + MB_FAST_FAIR_NODE_BYTES;
            if (end > index->arena.next)
                index->arena.next = end;
            tidy(index, node);
            if (!node->sibling)
                break;
        }
        if (!down->level)
            break;
    }
    for (struct node *down = first;; down = node_at(index, down->first)) {
        for (uint64_t next = down->sibling; next;) {
            struct node *node = node_at(index, next);
            if (node_at(index, root_of(index)->node)->level == node->level) {
                if (!grow_root(index, node->low, next))
                    return false;
            } else if (descend(index, node->low, node->level, &found) != node) {
                if (!insert_in_level(index, node->level + 1, node->low, next))
                    return false;
            }
            next = node->sibling;
        }
        if (!down->level)
            return true;
    }
}

/* ---- an index ---- */

static bool make(struct mb_index *index)
{
    const struct mb_policy *policy = index->policy;
    index->arena.next = MB_FAST_FAIR_NODE_BYTES;
    struct node *node = new_node(index, 0, 0, 0, 0);
    if (!node)
        return false;
    persist_node(policy, node);
    mb_commit(policy, &root_of(index)->node, offset_of(index, node));
    return true;
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct found found;
    struct node *leaf = lock_for(index, key, 0, &found);
    bool there = found.place >= 0 && found.key == key;
    if (there)
        mb_commit(index->policy, &leaf->entries[found.place].value, value);
    unlock(index, leaf);
    return there;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct found found;
    struct node *leaf = lock_for(index, key, 0, &found);
    bool room = true;
    if (found.place >= 0 && found.key == key)
        mb_commit(index->policy, &leaf->entries[found.place].value, value);
    else if (count_of(leaf) < MOST)
        insert_at(index->policy, leaf, (uint32_t)(found.place + 1), key, value);
    else
        room = room_for_splits(index) && insert_in_half(index, leaf, key, value);
    unlock(index, leaf);
    return room;
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    struct found found;
    descend(index, key, 0, &found);
    bool there = found.place >= 0 && found.key == key;
    if (there)
        *value = found.value;
    return there;
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    struct found found;
    struct node *leaf = lock_for(index, key, 0, &found);
    bool there = found.place >= 0 && found.key == key;
    if (there) {
        mb_put(index->policy, &leaf->entries[found.place].key, GAP);
        close_at(index->policy, leaf, (uint32_t)found.place);
    }
    unlock(index, leaf);
    return there;
}

const struct mb_index_kind mb_fast_fair = {
    .name = "fast_fair",
    .disciplines = {[MB_DESIGNED] = true, [MB_FF] = true, [MB_SFF] = true, [MB_UNAWARE] = true},
    .shares = true,
    .adds = true,
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
};

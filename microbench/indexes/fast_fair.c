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
            uint32_t level; /* 0: leaf */
            uint32_t count; /* of entries: not durable, recover counts again */
        };
        uint64_t level_word; /* with a count of 0 */
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

/*
 * Of the entries with keys up to this one the last, as a number; -1: all are above it. Linear, as
 * in the paper: misses of a node's lines overlap, and one branch alone is hard to predict.
 */
static int place_of(const struct node *node, uint64_t key)
{
    int at = 0, count = (int)node->count;
    while (at < count && node->entries[at].key <= key)
        at++;
    return at - 1;
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
    uint32_t count = node->count;
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
    node->count = count + 1;
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
    uint32_t last = node->count - 1;
    for (uint32_t i = place; i < last; i++) {
        mb_put(policy, &entries[i].value, entries[i + 1].value);
        mb_put(policy, &entries[i].key, entries[i + 1].key);
        if (!on_one_line(&entries[i], &entries[i + 1])) {
            mb_flush(policy, &entries[i]);
            mb_fence(policy);
        }
    }
    mb_commit(policy, &entries[last].key, END);
    node->count = last;
}

static void cut_off(const struct mb_policy *policy, struct node *node, uint32_t place)
{
    mb_commit_extra(policy, &node->entries[place].key, END); /* recover does it again */
    node->count = place;
}

/* ---- the tree: splits (FAIR) ---- */

static struct node *new_node(struct mb_index *index, uint64_t first, uint64_t sibling, uint64_t low,
                             uint32_t level)
{
    const struct mb_policy *policy = index->policy;
    struct node *node = node_at(index, index->arena.next);
    if (index->arena.next + MB_FAST_FAIR_NODE_BYTES > index->arena.size_bytes)
        return NULL;
    index->arena.next += MB_FAST_FAIR_NODE_BYTES;
    mb_put(policy, &node->first, first);
    mb_put(policy, &node->sibling, sibling);
    mb_put(policy, &node->low, low);
    mb_put(policy, &node->level_word, level);
    mb_put(policy, &node->entries[0].key, END);
    return node;
}

static void persist_node(const struct mb_policy *policy, const struct node *node)
{
    mb_flush_all(policy, node, (size_t)((const char *)&node->entries[node->count + 1] -
                                        (const char *)node));
    mb_fence(policy);
}

static struct node *child_for(const struct mb_index *index, const struct node *node, uint64_t key)
{
    int place = place_of(node, key);
    return node_at(index, place < 0 ? node->first : node->entries[place].value);
}

/* The node of a level on the way to a key. */
static struct node *descend(const struct mb_index *index, uint64_t key, uint32_t level)
{
    struct node *node = node_at(index, root_of(index)->node);
    while (node->level > level)
        node = child_for(index, node, key);
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
    node->count = 1;
    persist_node(policy, node);
    mb_commit_extra(policy, &root_of(index)->node, offset_of(index, node)); /* so does this */
    return true;
}

/* The upper half of a full node, in a new one that follows it; NULL: no room. */
static struct node *split(struct mb_index *index, struct node *node)
{
    const struct mb_policy *policy = index->policy;
    const struct entry *entries = node->entries;
    uint32_t half = node->count / 2, from = node->level ? half + 1 : half;
    struct node *upper = new_node(index, node->level ? entries[half].value : 0, node->sibling,
                                  entries[half].key, node->level);
    if (!upper)
        return NULL;
    for (uint32_t i = from; i < node->count; i++) {
        mb_put(policy, &upper->entries[i - from].key, entries[i].key);
        mb_put(policy, &upper->entries[i - from].value, entries[i].value);
    }
    upper->count = node->count - from;
    mb_put(policy, &upper->entries[upper->count].key, END);
    persist_node(policy, upper);
    mb_commit(policy, &node->sibling, offset_of(index, upper));
    cut_off(policy, node, half);
    return upper;
}

/* Into the node of that level, which splits where it is full, and so its parents. */
static bool insert_in_level(struct mb_index *index, uint32_t level, uint64_t key, uint64_t value)
{
    struct node *node = descend(index, key, level);
    if (node->count == MOST) {
        struct node *upper = split(index, node);
        if (!upper)
            return false;
        uint64_t low = upper->low, offset = offset_of(index, upper);
        bool known = node_at(index, root_of(index)->node) == node
                         ? grow_root(index, low, offset)
                         : insert_in_level(index, level + 1, low, offset);
        if (!known)
            return false;
        node = key < low ? node : upper;
    }
    insert_at(index->policy, node, (uint32_t)(place_of(node, key) + 1), key, value);
    return true;
}

/* There is room for a new node in every level: a split cannot be left half done. */
static bool room_for_splits(const struct mb_index *index)
{
    const struct node *root = node_at(index, root_of(index)->node);
    uint64_t nodes = root->level + 2;
    return index->arena.next + nodes * MB_FAST_FAIR_NODE_BYTES <= index->arena.size_bytes;
}

/* ---- recovery ---- */

static void count_entries(struct node *node)
{
    node->count = 0;
    while (node->entries[node->count].key != END)
        node->count++;
}

/* Without gaps, twins, and what the sibling has as well. */
static void tidy(struct mb_index *index, struct node *node)
{
    const struct mb_policy *policy = index->policy;
    struct entry *entries = node->entries;
    count_entries(node);
    for (uint32_t i = 0; i < node->count;) {
        if (entries[i].key == GAP || (i && entries[i].key == entries[i - 1].key))
            close_at(policy, node, i);
        else
            i++;
    }
    if (!node->sibling)
        return;
    uint64_t low = node_at(index, node->sibling)->low;
    for (uint32_t i = 0; i < node->count; i++)
        if (entries[i].key >= low) {
            cut_off(policy, node, i);
            return;
        }
}

static bool recover(struct mb_index *index)
{
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
            } else if (descend(index, node->low, node->level) != node) {
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

static struct entry *find(const struct mb_index *index, uint64_t key)
{
    struct node *leaf = descend(index, key, 0);
    int place = place_of(leaf, key);
    bool found = place >= 0 && leaf->entries[place].key == key;
    return found ? &leaf->entries[place] : NULL;
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct entry *entry = find(index, key);
    if (entry)
        mb_commit(index->policy, &entry->value, value);
    return entry;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct node *leaf = descend(index, key, 0);
    int place = place_of(leaf, key);
    if (place >= 0 && leaf->entries[place].key == key)
        mb_commit(index->policy, &leaf->entries[place].value, value);
    else if (leaf->count < MOST)
        insert_at(index->policy, leaf, (uint32_t)(place + 1), key, value);
    else
        return room_for_splits(index) && insert_in_level(index, 0, key, value);
    return true;
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    const struct entry *entry = find(index, key);
    if (entry)
        *value = entry->value;
    return entry;
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    struct node *leaf = descend(index, key, 0);
    int place = place_of(leaf, key);
    if (place < 0 || leaf->entries[place].key != key)
        return false;
    mb_put(index->policy, &leaf->entries[place].key, GAP);
    close_at(index->policy, leaf, (uint32_t)place);
    return true;
}

const struct mb_index_kind mb_fast_fair = {
    .name = "fast_fair",
    .disciplines = {[MB_DESIGNED] = true, [MB_FF] = true, [MB_SFF] = true, [MB_UNAWARE] = true},
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
};

/*
 * A radix tree whose changes become durable by one word, after WOART (Lee, Lim, Song, Nam and
 * Noh, FAST'17, section 4): nodes of 4, 16, 48 and 256 children that grow with their number, each
 * with the word that decides which of its children hold; and compressed paths.
 *
 * A node's header says at which byte of a key it stands, so that a header that was to be
 * shortened after its node got a new parent is understood as it is: the first bytes of its
 * path are the parent's (section 4.1 there). Nothing has to be repaired; `recover` does not walk.
 * Nodes do not shrink. Keys are compared by bytes from the highest, at the leaf whole.
 */
#include "index.h"

enum { KEY_BYTES = 8 };

struct leaf {
    uint64_t key, value;
};

/*
 * Bytes, from the lowest of `header`: where the path begins, how long it is, and its bytes, of
 * which a key has eight and the last one is always a child's: seven at most. The first two share
 * a byte, so that the word holds them all.
 */
enum node_type { NODE4, NODE16, NODE48, NODE256, NODE_TYPES };
struct node {
    uint64_t header;
    uint64_t type;
};
/* taken: bytes 0 … 3 the keys, 4 … 7 whether they hold. */
struct node4 {
    struct node node;
    uint64_t taken, children[4];
};
/* taken: bits. */
struct node16 {
    struct node node;
    uint64_t taken, unused, keys[2], children[16];
};
/* of: a byte for each byte of a key, 0: no child, else its number from 1. */
struct node48 {
    struct node node;
    uint64_t of[32], children[48];
};
struct node256 {
    struct node node;
    uint64_t children[256];
};
/* The tree's first link. Links are offsets, a leaf's with bit 0; 0: nothing. */
struct root {
    uint64_t link;
    uint64_t unused[7];
};

static const uint64_t node_bytes[NODE_TYPES] = {sizeof(struct node4), sizeof(struct node16),
                                                sizeof(struct node48), sizeof(struct node256)};

static struct root *root_of(const struct mb_index *index)
{
    return mb_arena_at(&index->arena, MB_ARENA_ROOT);
}

static struct leaf *leaf_at(const struct mb_index *index, uint64_t link)
{
    return mb_arena_at(&index->arena, link & ~UINT64_C(1));
}

static void *node_at(const struct mb_index *index, uint64_t link)
{
    return mb_arena_at(&index->arena, link);
}

/* ---- words of bytes ---- */

static unsigned byte_in(uint64_t word, unsigned at) { return word >> 8 * at & 0xff; }

static uint64_t with_byte(uint64_t word, unsigned at, unsigned byte)
{
    return (word & ~(UINT64_C(0xff) << 8 * at)) | (uint64_t)byte << 8 * at;
}

/* The key's n-th byte, from the highest. */
static unsigned key_byte(uint64_t key, unsigned n) { return byte_in(key, KEY_BYTES - 1 - n); }

static unsigned path_begin(uint64_t header) { return header & 0xf; }
static unsigned path_length(uint64_t header) { return header >> 4 & 0xf; }
static unsigned path_end(uint64_t header) { return path_begin(header) + path_length(header); }

/* The bytes of a key from one to before another. */
static uint64_t path_of(uint64_t key, unsigned begin, unsigned end)
{
    uint64_t header = begin | (uint64_t)(end - begin) << 4;
    for (unsigned i = begin; i < end; i++)
        header = with_byte(header, 1 + i - begin, key_byte(key, i));
    return header;
}

/* Of a path, the byte that stands at the key's n-th. */
static unsigned path_byte(uint64_t header, unsigned n)
{
    return byte_in(header, 1 + n - path_begin(header));
}

static uint64_t path_from(uint64_t header, unsigned begin)
{
    uint64_t shorter = begin | (uint64_t)(path_end(header) - begin) << 4;
    for (unsigned i = begin; i < path_end(header); i++)
        shorter = with_byte(shorter, 1 + i - begin, path_byte(header, i));
    return shorter;
}

/* ---- children ---- */

/* The link of a byte's child; NULL: it has none. */
static uint64_t *child_of(struct node *node, unsigned byte)
{
    if (node->type == NODE4) {
        struct node4 *four = (struct node4 *)node;
        for (unsigned i = 0; i < 4; i++)
            if (byte_in(four->taken, i) == byte && byte_in(four->taken, 4 + i))
                return &four->children[i];
        return NULL;
    }
    if (node->type == NODE16) {
        struct node16 *sixteen = (struct node16 *)node;
        for (unsigned i = 0; i < 16; i++)
            if (sixteen->taken >> i & 1 && byte_in(sixteen->keys[i / 8], i % 8) == byte)
                return &sixteen->children[i];
        return NULL;
    }
    if (node->type == NODE48) {
        struct node48 *forty = (struct node48 *)node;
        unsigned number = byte_in(forty->of[byte / 8], byte % 8);
        return number ? &forty->children[number - 1] : NULL;
    }
    uint64_t *child = &((struct node256 *)node)->children[byte];
    return *child ? child : NULL;
}

/* A child's number that is free; -1: the node is full. */
static int free_child(const struct node *node)
{
    if (node->type == NODE4) {
        for (int i = 0; i < 4; i++)
            if (!byte_in(((const struct node4 *)node)->taken, 4 + (unsigned)i))
                return i;
        return -1;
    }
    if (node->type == NODE16) {
        uint64_t taken = ((const struct node16 *)node)->taken;
        return taken == 0xffff ? -1 : __builtin_ctzll(~taken);
    }
    if (node->type == NODE48) {
        for (int i = 0; i < 48; i++)
            if (!((const struct node48 *)node)->children[i])
                return i;
        return -1;
    }
    return 0;
}

/*
 * What an entry consists of becomes durable before the word by which it holds. Where both are on
 * one line the first flush is the paper's, and not needed.
 */
static void before(const struct mb_policy *policy, const void *entry, const void *decides)
{
    if (mb_line_of(entry) == mb_line_of(decides)) {
        mb_flush_extra(policy, entry);
        mb_fence_extra(policy);
    } else {
        mb_flush(policy, entry);
        mb_fence(policy);
    }
}

/*
 * To a node that is not full; a byte that has no child. `linked`: something links to the node
 * already, so that each step must be durable; otherwise plain stores are enough.
 */
static void add_child(const struct mb_policy *policy, struct node *node, unsigned byte,
                      uint64_t link, bool linked)
{
    unsigned i = (unsigned)free_child(node);
    uint64_t *child, *keys = NULL, *decides, word = link;
    if (node->type == NODE4) {
        struct node4 *four = (struct node4 *)node;
        child = &four->children[i];
        decides = &four->taken;
        word = with_byte(with_byte(four->taken, i, byte), 4 + i, 1);
    } else if (node->type == NODE16) {
        struct node16 *sixteen = (struct node16 *)node;
        child = &sixteen->children[i];
        keys = &sixteen->keys[i / 8];
        decides = &sixteen->taken;
        word = sixteen->taken | UINT64_C(1) << i;
    } else if (node->type == NODE48) {
        struct node48 *forty = (struct node48 *)node;
        child = &forty->children[i];
        decides = &forty->of[byte / 8];
        word = with_byte(*decides, byte % 8, i + 1);
    } else {
        child = decides = &((struct node256 *)node)->children[byte];
    }
    if (child != decides)
        mb_put(policy, child, link);
    if (keys)
        mb_put(policy, keys, with_byte(*keys, i % 8, byte));
    if (!linked) {
        mb_put(policy, decides, word);
        return;
    }
    if (keys) {
        mb_flush_extra(policy, keys);
        mb_fence_added_extra(policy);
    }
    if (child != decides)
        before(policy, child, decides);
    mb_commit(policy, decides, word);
}

static void remove_child(const struct mb_policy *policy, struct node *node, unsigned byte)
{
    if (node->type == NODE4) {
        struct node4 *four = (struct node4 *)node;
        unsigned i = (unsigned)(child_of(node, byte) - four->children);
        mb_commit(policy, &four->taken, with_byte(four->taken, 4 + i, 0));
    } else if (node->type == NODE16) {
        struct node16 *sixteen = (struct node16 *)node;
        unsigned i = (unsigned)(child_of(node, byte) - sixteen->children);
        mb_commit(policy, &sixteen->taken, sixteen->taken & ~(UINT64_C(1) << i));
    } else if (node->type == NODE48) {
        struct node48 *forty = (struct node48 *)node;
        uint64_t *of = &forty->of[byte / 8], *child = child_of(node, byte);
        mb_commit(policy, of, with_byte(*of, byte % 8, 0));
        mb_put(policy, child, 0); /* free again, unless a cut comes first */
    } else {
        mb_commit(policy, &((struct node256 *)node)->children[byte], 0);
    }
}

/* ---- new nodes: durable once `persist` is done, before anything links to them ---- */

static uint64_t new_leaf(struct mb_index *index, uint64_t key, uint64_t value)
{
    uint64_t offset = mb_arena_take(&index->arena, index->policy, sizeof(struct leaf),
                                    sizeof(struct leaf));
    struct leaf *leaf = leaf_at(index, offset);
    mb_put(index->policy, &leaf->key, key);
    mb_put(index->policy, &leaf->value, value);
    mb_flush(index->policy, leaf);
    mb_fence(index->policy);
    return offset | 1;
}

static struct node *new_node(struct mb_index *index, enum node_type type, uint64_t header)
{
    const struct mb_policy *policy = index->policy;
    uint64_t offset = mb_arena_take(&index->arena, policy, node_bytes[type], MB_LINE);
    struct node *node = node_at(index, offset);
    mb_put(policy, &node->header, header);
    mb_put(policy, &node->type, type);
    for (uint64_t at = sizeof *node; at < node_bytes[type]; at += MB_WORD)
        mb_put(policy, (uint64_t *)(void *)((char *)node + at), 0);
    return node;
}

static void persist(const struct mb_policy *policy, const struct node *node)
{
    mb_flush_all(policy, node, node_bytes[node->type]);
    mb_fence(policy);
}

static uint64_t link_of(const struct mb_index *index, const struct node *node)
{
    return (uint64_t)((const char *)node - index->arena.base);
}

/* ---- the tree ---- */

/* The link by which a full node hangs gets a larger one, with one child more. */
static void grow(struct mb_index *index, uint64_t *link, unsigned begin, unsigned byte,
                 uint64_t child)
{
    const struct mb_policy *policy = index->policy;
    struct node *old = node_at(index, *link);
    struct node *node = new_node(index, (enum node_type)(old->type + 1),
                                 path_from(old->header, begin));
    for (unsigned i = 0; i < 256; i++) {
        const uint64_t *held = child_of(old, i);
        if (held)
            add_child(policy, node, i, *held, false);
    }
    add_child(policy, node, byte, child, false);
    persist(policy, node);
    mb_commit(policy, link, link_of(index, node));
}

/* A node above what hangs at a link: the key parts from its path at the key's byte `apart`. */
static void put_above(struct mb_index *index, uint64_t *link, unsigned begin, unsigned apart,
                      unsigned old_byte, uint64_t key, uint64_t value)
{
    const struct mb_policy *policy = index->policy;
    uint64_t leaf = new_leaf(index, key, value);
    struct node *node = new_node(index, NODE4, path_of(key, begin, apart));
    add_child(policy, node, old_byte, *link, false);
    add_child(policy, node, key_byte(key, apart), leaf, false);
    persist(policy, node);
    mb_commit(policy, link, link_of(index, node));
}

/* The leaf that a key's bytes lead to, which may be another key's; NULL: none. */
static struct leaf *led_to(const struct mb_index *index, uint64_t key)
{
    uint64_t link = root_of(index)->link;
    for (unsigned at = 0; link && !(link & 1); at++) {
        struct node *node = node_at(index, link);
        if (path_length(node->header)) {
            at = path_end(node->header);
            __asm__ volatile(""); /* a branch: a child's line need not wait for the header's */
        }
        const uint64_t *child = child_of(node, key_byte(key, at));
        link = child ? *child : 0;
    }
    return link ? leaf_at(index, link) : NULL;
}

static struct leaf *find(const struct mb_index *index, uint64_t key)
{
    struct leaf *leaf = led_to(index, key);
    return leaf && leaf->key == key ? leaf : NULL;
}

static bool insert(struct mb_index *index, uint64_t key, uint64_t value)
{
    const struct mb_policy *policy = index->policy;
    uint64_t *link = &root_of(index)->link;
    uint64_t most = sizeof(struct leaf) + sizeof(struct node256) + 2 * MB_LINE;
    if (index->arena.next + most > index->arena.size_bytes)
        return false;
    for (unsigned begin = 0;;) {
        if (!*link) {
            mb_commit(policy, link, new_leaf(index, key, value));
            return true;
        }
        if (*link & 1) {
            struct leaf *leaf = leaf_at(index, *link);
            unsigned apart = begin;
            if (leaf->key == key) {
                mb_commit(policy, &leaf->value, value);
                return true;
            }
            while (key_byte(key, apart) == key_byte(leaf->key, apart))
                apart++;
            put_above(index, link, begin, apart, key_byte(leaf->key, apart), key, value);
            return true;
        }
        struct node *node = node_at(index, *link);
        unsigned end = path_end(node->header), at = begin;
        while (at < end && path_byte(node->header, at) == key_byte(key, at))
            at++;
        if (at < end) {
            put_above(index, link, begin, at, path_byte(node->header, at), key, value);
            mb_commit_extra(policy, &node->header, path_from(node->header, at + 1));
            return true;
        }
        unsigned byte = key_byte(key, at);
        uint64_t *child = child_of(node, byte);
        if (!child) {
            uint64_t leaf = new_leaf(index, key, value);
            if (free_child(node) < 0)
                grow(index, link, begin, byte, leaf);
            else
                add_child(policy, node, byte, leaf, true);
            return true;
        }
        link = child;
        begin = at + 1;
    }
}

static bool make(struct mb_index *index)
{
    if (!mb_arena_open(&index->arena, index->policy, sizeof(struct root)))
        return false;
    mb_commit(index->policy, &root_of(index)->link, 0);
    return true;
}

static bool recover(struct mb_index *index)
{
    mb_arena_recover(&index->arena);
    return true;
}

static bool update(struct mb_index *index, uint64_t key, uint64_t value)
{
    struct leaf *leaf = find(index, key);
    if (leaf)
        mb_commit(index->policy, &leaf->value, value);
    return leaf;
}

static bool look_up(const struct mb_index *index, uint64_t key, uint64_t *value)
{
    const struct leaf *leaf = find(index, key);
    if (leaf)
        *value = leaf->value;
    return leaf;
}

static bool take_out(struct mb_index *index, uint64_t key)
{
    uint64_t *link = &root_of(index)->link;
    struct node *parent = NULL;
    unsigned byte = 0;
    while (*link && !(*link & 1)) {
        parent = node_at(index, *link);
        byte = key_byte(key, path_end(parent->header));
        link = child_of(parent, byte);
        if (!link)
            return false;
    }
    if (!*link || leaf_at(index, *link)->key != key)
        return false;
    if (parent)
        remove_child(index->policy, parent, byte);
    else
        mb_commit(index->policy, link, 0);
    return true;
}

const struct mb_index_kind mb_woart = {
    .name = "woart",
    .disciplines = {[MB_DESIGNED] = true, [MB_FF] = true, [MB_SFF] = true, [MB_OPTIMIZED] = true},
    .open = make,
    .recover = recover,
    .insert = insert,
    .update = update,
    .read = look_up,
    .remove = take_out,
};

#include "btree.h"
#include "arm.h"

static btree *tree;

void arm_open(size_t) { tree = new btree(); }
void arm_insert(uint64_t key, uint64_t value)
{
    tree->btree_insert((entry_key_t)key, (char *)value);
}
uint64_t arm_read(uint64_t key) { return (uint64_t)tree->btree_search((entry_key_t)key); }

#include "woart.h"
#include "arm.h"

static art_tree tree;

void arm_open(size_t bytes) { (void)bytes, art_tree_init(&tree); }
void arm_insert(uint64_t key, uint64_t value) { art_insert(&tree, key, sizeof key, (void *)value); }
uint64_t arm_read(uint64_t key) { return (uint64_t)art_search(&tree, key, sizeof key); }

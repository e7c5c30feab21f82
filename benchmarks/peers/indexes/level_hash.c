/* Its keys have KEY_LEN bytes, its values VALUE_LEN; without a latency its pflush does nothing. */
#include "level_hashing.h"
#include "pflush.h"
#include "arm.h"

static level_hash *table;

void arm_open(size_t bytes)
{
    (void)bytes;
    init_pflush(2000, 0);
    table = level_init(2); /* 4 buckets, as ours */
}

void arm_insert(uint64_t key, uint64_t value)
{
    uint8_t its_key[KEY_LEN] = {0}, its_value[VALUE_LEN] = {0};
    memcpy(its_key, &key, sizeof key);
    memcpy(its_value, &value, sizeof value);
    while (level_insert(table, its_key, its_value) != 0)
        level_expand(table);
}

uint64_t arm_read(uint64_t key)
{
    uint8_t its_key[KEY_LEN] = {0};
    uint64_t value = 0;
    memcpy(its_key, &key, sizeof key);
    const uint8_t *found = level_static_query(table, its_key);
    if (found)
        memcpy(&value, found, sizeof value);
    return value;
}

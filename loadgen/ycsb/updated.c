/* See updated.h. */
#include "updated.h"

#include "random.h"

#include <stddef.h>

void lg_ycsb_updated_add(struct lg_ycsb_updated *updated, uint64_t key_hash, int field)
{
    uint64_t hash = tb_mix(key_hash + (uint64_t)(field + 1) * UINT64_C(0x9e3779b97f4a7c15));
    int64_t *group = &updated->highest[hash % YCSB_UPDATED_GROUPS];

    if ((int64_t)(hash >> 1) > *group)
        *group = (int64_t)(hash >> 1);
}

void lg_ycsb_updated_merge(struct lg_ycsb_updated *to, const struct lg_ycsb_updated *from)
{
    for (size_t i = 0; i < YCSB_UPDATED_GROUPS; i++)
        if (from->highest[i] > to->highest[i])
            to->highest[i] = from->highest[i];
}

json_t *lg_ycsb_updated_json(const struct lg_ycsb_updated *updated)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < YCSB_UPDATED_GROUPS; i++)
        json_array_append_new(groups, json_integer((json_int_t)updated->highest[i]));
    return groups;
}

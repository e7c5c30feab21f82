/*
 * One cycle through every node of a range: each node holds the address of the next one, so that
 * a load's address is what the load before it brought.
 */
#pragma once

#include "job.h"

enum mb_chase_order { MB_CHASE_RANDOM, MB_CHASE_SEQUENTIAL, MB_CHASE_STRIDED };

struct mb_cycle {
    uint64_t nodes;
    uint64_t node_bytes; /* from one to the next; the pointer is its first word */
    enum mb_chase_order order;
    uint64_t stride_bytes;   /* strided: a multiple of node_bytes */
    uint64_t locality_bytes; /* random: all nodes of one such block before those of another */
};

/* Time and space: 4 bytes a node next to the range, drawn and shuffled. */
void mb_cycle_write(char *base, const struct mb_cycle *cycle, struct tb_random *random);

/*
 * One cycle through every node of a range: each node holds the address of the next one, so that
 * a load's address is what the load before it brought.
 */
#ifndef MICROBENCH_CHASE_CYCLE_H
#define MICROBENCH_CHASE_CYCLE_H

#include "job.h"

/*
 * `node_bytes`: from one node to the next; the pointer is its first word. It takes 4 bytes a node
 * next to the range for the order, which is drawn and shuffled.
 */
void mb_cycle_write(char *base, uint64_t nodes, uint64_t node_bytes, struct tb_random *random);

#endif

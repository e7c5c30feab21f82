/*
 * One cycle through every line of a range: each line's first word holds the address of the next
 * one, so that a load's address is what the load before it brought.
 */
#ifndef MICROBENCH_CHASE_CYCLE_H
#define MICROBENCH_CHASE_CYCLE_H

#include "job.h"

/* It takes 4 bytes a line next to the range for the order, which is drawn and shuffled. */
void mb_cycle_write(char *base, uint64_t lines, struct tb_random *random);

#endif

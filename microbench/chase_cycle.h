/*
 * One cycle through every element of a range, in random order: each element holds the address
 * of the next one, so that a load's address is what the load before it brought.
 */
#ifndef MICROBENCH_CHASE_CYCLE_H
#define MICROBENCH_CHASE_CYCLE_H

#include "job.h"

/*
 * `elements` of `stride_bytes` from base on, a pointer in the first word of each. Where
 * locality_bytes is less than the range, all elements of one such block come before those of
 * the next one: the walk then misses the TLB once a block.
 * Time and space: a shuffle of 4 bytes an element, beside the range.
 */
void mb_cycle_write(char *base, uint64_t elements, uint64_t stride_bytes, uint64_t locality_bytes,
                    struct lg_random *random);
/* Steps until base is reached again; 0 where a pointer leaves the range or there are more. */
uint64_t mb_cycle_length(const char *base, uint64_t elements, uint64_t stride_bytes);

#endif

/* Addresses by Zipf's law, in a ring whose rare lines are others in each round. */
#ifndef MICROBENCH_ZIPF_H
#define MICROBENCH_ZIPF_H

#include "kernel.h"

/*
 * An address of less than two ranges, around the range. Without a branch, for half of them would
 * be mispredicted, and that takes nine times as long: time in which the memory has nothing to do,
 * and other threads' accesses have more of it than they should.
 */
static inline char *mb_around(char *at, char *base, uint64_t range_bytes)
{
    uint64_t beyond = (uint64_t)(at - base) - range_bytes, below = beyond >> 63;
    return base + (beyond + (range_bytes & -below));
}

/*
 * Fills the ring of a cursor, whose range, access, exponent and random numbers are known. Rank r
 * of `slots` has r^-exponent of what the first one has.
 */
void mb_zipf_begin(struct mb_cursor *cursor, uint64_t slots);
/* The ring of the next round: lines of the same frequencies, drawn anew among their likes. */
void mb_zipf_turn(struct mb_cursor *cursor);
void mb_zipf_end(struct mb_cursor *cursor);

#endif

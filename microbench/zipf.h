/* Addresses by Zipf's law, in a ring that is so long that no cache holds a round's rare lines. */
#pragma once

#include "kernel.h"

/*
 * How many draws a ring has: as many as move eight times what the last-level cache holds (of
 * 32 MiB at least), 2^24 at most. It stays as it is, for hot lines stay where they are, and to
 * draw it again takes ten times as long as its accesses; nor is it turned within classes of equal
 * frequency, for that takes 2 ns a draw, in which the memory has nothing to do.
 */
uint64_t mb_zipf_draws(uint64_t access_bytes);
/*
 * Fills the ring of a cursor, whose range, access, exponent and random numbers are known. Rank r
 * of `slots` has r^-exponent of what the first one has.
 */
void mb_zipf_fill(struct mb_cursor *cursor, uint64_t slots);

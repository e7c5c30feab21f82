/* Atomic operations: loops/atomic.c. They have no vectors: all instruction sets have the same. */
#pragma once

#include "../kernel.h"

/*
 * On the first word of each access of the span; returns how many succeeded. `seen`: what the
 * thread expects in the next word, and afterwards what it found or left in the last one.
 */
typedef uint64_t mb_atomic_loop(const struct mb_span *span, uint64_t *seen);

enum mb_atomic { MB_FETCH_AND_ADD, MB_COMPARE_AND_SWAP, MB_ATOMICS };

mb_atomic_loop *mb_atomic_sse2(enum mb_atomic operation);
mb_atomic_loop *mb_atomic_avx2(enum mb_atomic operation);
mb_atomic_loop *mb_atomic_avx512(enum mb_atomic operation);
mb_atomic_loop *mb_atomic_neon(enum mb_atomic operation);

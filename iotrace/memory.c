// Memory policies that Linux does not apply by itself, set by mbind(2) on large mappings as they are
// made (harness/tiers/memory_policy.py):
//
//   TIERBENCH_MEMORY="weighted 0:3 2:1"  pieces of anonymous mappings go to the nodes in turn, of
//                                        each cycle three to node 0 and one to node 2
//   TIERBENCH_MEMORY="tiered 0:1 2:1"    shared mappings are bound to the nodes and take part in
//                                        NUMA balancing: Linux scans no shared memory without a
//                                        policy of its own (vma_policy_mof() in mm/mempolicy.c)
//
// A piece's node follows from its address, so that the cycles of neighbouring mappings join. The
// size of the pieces is a compromise: each turn splits a mapping of the process in two, of which it
// may have 65,530, and pieces of less than 2 MiB have no huge pages. What is smaller than
// LEAST_BYTES, and what malloc() maps (a call within the C library), has the process's policy.
#undef _FORTIFY_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "iotrace.h"

#define PREFERRED 1
#define BIND_AND_BALANCE (2 | 1 << 13)
#define MOST_NODES 64
#define MASK_BITS 1024
#define LEAST_BYTES ((size_t)1 << 20)
#define LARGEST_PIECE ((size_t)1 << 21)
#define LEAST_CYCLES 4
#define MOST_PIECES 8192

struct share {
  unsigned node, weight;
};
static struct share shares[MOST_NODES];
static size_t share_count;
static unsigned weight_sum;
static bool weighted;

static void bind(uintptr_t start, size_t size, int mode, const unsigned *nodes, size_t count) {
  unsigned long mask[MASK_BITS / 64] = {0};
  for (size_t i = 0; i < count; i++) {
    mask[nodes[i] / 64] |= 1UL << nodes[i] % 64;
  }
  int before = errno; // where it fails, numa_maps shows it, and the check of the run fails
  syscall(SYS_mbind, start, size, mode, mask, (unsigned long)MASK_BITS + 1, 0);
  errno = before;
}

static unsigned node_of(uint64_t piece) {
  unsigned turn = (unsigned)(piece % weight_sum);
  for (size_t i = 0; i < share_count; i++) {
    if (turn < shares[i].weight) {
      return shares[i].node;
    }
    turn -= shares[i].weight;
  }
  return shares[0].node;
}

static void spread(uintptr_t start, size_t size, size_t least_piece) {
  size_t piece = LARGEST_PIECE;
  while (piece > least_piece && piece * weight_sum * LEAST_CYCLES > size) {
    piece /= 2;
  }
  while (piece < least_piece || size / piece > MOST_PIECES) {
    piece *= 2;
  }
  for (uintptr_t at = start, end = start + size; at < end;) {
    unsigned node = node_of(at / piece);
    uintptr_t next = at;
    do {
      next = (next / piece + 1) * piece;
    } while (next < end && node_of(next / piece) == node);
    next = next < end ? next : end;
    bind(at, next - at, PREFERRED, &node, 1);
    at = next;
  }
}

static void place(void *start, size_t size, bool shared, size_t least_piece) {
  if (share_count == 0 || size < LEAST_BYTES) {
    return;
  }
  if (weighted) {
    spread((uintptr_t)start, size, least_piece);
  } else if (shared) {
    unsigned nodes[MOST_NODES];
    for (size_t i = 0; i < share_count; i++) {
      nodes[i] = shares[i].node;
    }
    bind((uintptr_t)start, size, BIND_AND_BALANCE, nodes, share_count);
  }
}

static size_t page_size(int flags) {
  if (!(flags & MAP_HUGETLB)) {
    return (size_t)sysconf(_SC_PAGESIZE);
  }
  unsigned shift = (unsigned)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
  return shift ? (size_t)1 << shift : LARGEST_PIECE;
}

static size_t rounded(size_t size, size_t page_bytes) {
  return (size + page_bytes - 1) / page_bytes * page_bytes;
}

void place_mapping(void *start, size_t size, int flags) {
  if (flags & MAP_ANONYMOUS && !(flags & (MAP_STACK | MAP_GROWSDOWN))) {
    size_t page_bytes = page_size(flags);
    place(start, rounded(size, page_bytes), (flags & MAP_TYPE) != MAP_PRIVATE, page_bytes);
  }
}

EXPORTED void *shmat(int id, const void *address, int flags) {
  void *result = (void *)syscall(SYS_shmat, id, address, flags);
  struct shmid_ds facts;
  if (share_count > 0 && result != (void *)-1 && syscall(SYS_shmctl, id, IPC_STAT, &facts) == 0) {
    // Whether it has huge pages is not shown: pieces of their usual size suit both.
    place(result, rounded(facts.shm_segsz, (size_t)sysconf(_SC_PAGESIZE)), true, LARGEST_PIECE);
  }
  return result;
}

__attribute__((constructor)) static void start(void) {
  const char *text = getenv("TIERBENCH_MEMORY");
  const char *rest = text ? strchr(text, ' ') : NULL;
  weighted = text != NULL && strncmp(text, "weighted ", 9) == 0;
  unsigned sum = 0;
  size_t count = 0;
  while (rest != NULL && *rest == ' ' && count < MOST_NODES) {
    char *end;
    unsigned long node = strtoul(rest + 1, &end, 10);
    unsigned long weight = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
    if (node >= MASK_BITS || weight == 0 || weight > 255) {
      return;
    }
    shares[count++] = (struct share){(unsigned)node, (unsigned)weight};
    sum += (unsigned)weight;
    rest = end;
  }
  weight_sum = sum;
  share_count = count;
}

/*
 * The request: targets, and measurements of one or several jobs each.
 *
 *   spec ─ targets      where bytes lie: allocated and touched once, before anything else
 *        └ measurements one after the other, each `repeats` times
 *             └ jobs    at the same time, each of some threads on one target
 *
 * A job's `kind` says what its threads do (kernel.h). The core pins the threads, lets them
 * warm up, starts them together, stops them, and counts.
 */
#pragma once

#include "native.h"

#define MB_LINE UINT64_C(64)
#define MB_KIB UINT64_C(1024)
#define MB_MIB (1024 * MB_KIB)
#define MB_GIB (1024 * MB_MIB)
#define MB_HUGE_PAGE (2 * MB_MIB)

#if defined(__aarch64__)
/*
 * Clean a line to the point of persistence: DC CVAP, by its number so that any assembler takes it.
 * DC CVAC would reach the point of coherency alone. A processor without FEAT_DPB has no such
 * instruction (mb_cpu.flush).
 */
static inline void mb_clean_to_persistence(const void *line)
{
    __asm__ volatile("sys #3, c7, c12, #1, %0" ::"r"(line) : "memory");
}
#endif

struct mb_kernel;
struct mb_spec;

/* Pages of a part of a target lie on these nodes in turn, `weights` of them on each. */
struct mb_extent {
    uint64_t bytes;
    uint32_t *nodes, *weights;
    size_t count;
    uint64_t turn; /* pages until it is the first node's turn again; 0: one page on each node */
};

struct mb_target {
    const char *name;
    enum mb_target_kind { MB_DRAM, MB_FILE, MB_DEVDAX } kind;
    int node;                                       /* DRAM: -1 any */
    struct mb_extent *placement; /* DRAM, in place of `node`: its parts, one after the other */
    size_t extents;
    uint64_t from_bytes; /* a device: where the target begins on it */
    enum mb_pages { MB_BASE, MB_HUGE } pages; /* DRAM */
    const char *path;                               /* file or directory, device */
    enum mb_sync { MB_SYNC_REQUIRED, MB_SYNC_PREFERRED, MB_SYNC_OFF } sync; /* MAP_SYNC */
    bool overwrite; /* a file that is there, or a device: its content may go */
    /* What the kernel says of the device: how far a store must get to survive. */
    enum mb_domain { MB_VOLATILE, MB_ADR, MB_EADR } domain;
    uint64_t size_bytes;
    bool mapped, by_calls; /* how jobs use it: by its mapping, or by calls on its descriptor */
    bool by_kernels;       /* memory that jobs map themselves */

    char *base; /* of `size_bytes`, at a huge page's border; every page has been touched */
    int fd;
    uint64_t mapped_bytes;
    bool map_sync;
    uint64_t map_ns, touch_ns; /* not mapped: to write it */
    uint64_t touch_faults; /* page faults that touching took: one a page, of whatever size */
};

/* How fast each thread may go; both 0: as fast as it can. */
struct mb_pace {
    uint64_t bytes_per_second; /* of each thread */
    uint64_t pause_ns;         /* after each operation */
};

struct mb_job {
    const struct mb_spec *spec;
    const char *name;
    const json_t *given; /* the kind's own keys stand in it */
    const struct mb_kernel *kernel;
    struct mb_target *target;
    uint32_t threads;
    uint32_t partitions; /* equal parts of the range, `threads` a multiple of it */
    int *cpus;           /* one a thread */
    uint32_t first_thread; /* of its measurement's: threads of jobs before it */
    uint64_t offset_bytes, range_bytes; /* what it touches of the target */
    uint64_t operations; /* all threads together; 0: until the measurement ends */
    struct mb_pace pace;
    char *base;          /* the range's first byte; NULL: the target is not mapped */
    uint64_t seed;       /* of this measurement and job */
    void *params;        /* the kind's own, of its keys; freed after its `release` */
};

/* A measurement ends when its time is up, or when every job with a count is done. */
struct mb_measurement {
    const char *name;
    uint32_t repeats;
    uint64_t warm_up_ns;
    uint64_t duration_ns; /* 0: jobs with a count end it */
    struct mb_job *jobs;
    size_t job_count;
};

struct mb_spec {
    json_t *document; /* owns every text above */
    uint64_t seed;
    bool report_windows; /* tell the reader as all threads begin, and as the last one has ended */
    bool await_windows;  /* and wait for its answer each time: it reads slow counters */
    struct mb_target *targets;
    size_t target_count;
    struct mb_measurement *measurements;
    size_t measurement_count;
};

/* Every error names the key. The spec owns `document` in either case. */
bool mb_spec_read(struct mb_spec *spec, json_t *document, struct tb_error *error);
void mb_spec_free(struct mb_spec *spec);
struct mb_target *mb_spec_target(const struct mb_spec *spec, const char *name);

/*
 * The interface of kernels, and what they share: threads, addresses, instructions, clocks.
 *
 * A kernel is one file in kernels/: a job that runs it at the head, its table at the foot; and one
 * line in kernel_registry.c. The core calls, for each job of a measurement:
 *
 *   validate                 once, when the spec and the job's params are read
 *   prepare                  once a measurement, before any thread runs (may write the range)
 *   begin                    each repeat, in each thread, pinned: its addresses
 *     work, work, …          warm-up: `recording` is false
 *     work, work, …          measured: counts start at zero, `recording` is true
 *   end                      each repeat, in each thread
 *   check                    each repeat, after all threads: is the result correct?
 *   report                   each repeat: facts in addition to counts and durations
 *
 * `work` does exactly the given number of operations and adds to `done`. The core chooses a number
 * such that the clock is read about every 200 µs, so costs of more than some ns belong before the
 * loop of a `work`, not into it. A thread whose `recording` is false records no histogram: it
 * warms up, or another thread has already ended.
 */
#pragma once

#include "job.h"

/* ---- words ---------------------------------------------------------------------------- */

enum mb_isa { MB_SSE2, MB_AVX2, MB_AVX512, MB_NEON, MB_ISAS };
enum mb_access { MB_LOAD, MB_NTLOAD, MB_STORE, MB_NTSTORE, MB_EMPTY, MB_ACCESSES };
enum mb_flush { MB_NO_FLUSH, MB_CLWB, MB_CLFLUSHOPT, MB_CLFLUSH, MB_FLUSHES };
enum mb_fence { MB_NO_FENCE, MB_SFENCE, MB_MFENCE, MB_FENCES };

/* ---- kernels ----------------------------------------------------------------------- */

struct mb_counts {
    uint64_t operations;
    uint64_t read_bytes, written_bytes; /* on both targets */
    uint64_t second_bytes;              /* of these, on the job's second target */
    /* Time for what is not measured, taken off before a rate is formed, and processor time of it. */
    uint64_t excluded_ns, excluded_cpu_ns;
};

struct mb_thread {
    const struct mb_job *job;
    uint32_t index; /* among the job's threads */
    uint32_t repeat;
    int cpu;
    /* Its partition, and its place among the threads that share it. */
    char *base;
    uint64_t range_bytes;
    uint32_t sharers, place;
    struct tb_random random; /* of (seed, repeat, index) */
    struct mb_counts done;
    bool recording;
    struct tb_hdr latency; /* where the kind has_latency; ns (mb_ns) */
    void *own;             /* the kind's, from `begin` to `end`; freed after it */
    struct tb_error error;
};

/* Bytes in each cycle of the core, by its load and store ports. */
struct mb_ceiling {
    unsigned load, store;
};

struct mb_persist {
    bool non_temporal;
    enum mb_flush flush;
    enum mb_fence fence;
    const struct mb_target *second; /* written as well; NULL: the job's target alone */
    bool second_alone;              /* nothing is written to the job's own */
};

struct mb_kernel {
    const char *name;
    const struct tb_param *params; /* keys of a job in addition to the common ones */
    size_t params_bytes;           /* of the struct that they are read into, job->params */
    bool has_latency;
    /*
     * It calls Linux on its target's descriptor: the target is a file that is written and not
     * mapped. Its threads wait for devices, so they sleep, and may run on any of the job's
     * processors.
     */
    bool by_calls;
    bool maps_itself; /* it maps its target again: memory is not mapped for it beforehand */
    bool (*validate)(struct mb_job *job, struct tb_error *error); /* may be NULL */
    void (*release)(struct mb_job *job); /* of what params point to; may be NULL */
    bool (*prepare)(struct mb_job *job, struct tb_error *error); /* may be NULL */
    void (*begin)(struct mb_thread *thread); /* may be NULL */
    void (*work)(struct mb_thread *thread, uint64_t operations);
    void (*end)(struct mb_thread *thread); /* of what `own` points to; may be NULL */
    bool (*check)(const struct mb_job *job, struct tb_error *error); /* may be NULL */
    void (*report)(const struct mb_job *job, json_t *facts);   /* may be NULL */
    /* What its instructions could move at most; NULL: what the widest could. */
    struct mb_ceiling (*ceiling)(const struct mb_job *job);
    /* Does it write, and how far does that get? NULL: it writes nothing. */
    bool (*persists)(const struct mb_job *job, struct mb_persist *persist);
};

const struct mb_kernel *mb_kernel_named(const char *name); /* NULL: none */

/* Of a job's range, or of its second target's, the part of each partition: whole lines. */
static inline uint64_t mb_part_bytes(const struct mb_job *job, uint64_t range_bytes)
{
    return range_bytes / job->partitions / MB_LINE * MB_LINE;
}

/* The part of its partition that a thread has to itself, in whole lines; and its first byte. */
static inline uint64_t mb_thread_bytes(const struct mb_job *job)
{
    uint32_t sharers = job->threads / job->partitions;
    return mb_part_bytes(job, job->range_bytes) / sharers / MB_LINE * MB_LINE;
}

static inline char *mb_thread_base(const struct mb_job *job, uint32_t index)
{
    uint32_t sharers = job->threads / job->partitions;
    return job->base + index / sharers * mb_part_bytes(job, job->range_bytes) +
           index % sharers * mb_thread_bytes(job);
}

/* A number of bytes: a multiple of 64 and more than 0. */
#define MB_BYTES_KEY(struct_, key_, member, fallback_)                                          \
    {.key = (key_), .type = TB_INTEGER, TB_PLACE(struct_, member), .least = (int64_t)MB_LINE,     \
     .most = INT64_MAX, .unit = (int64_t)MB_LINE, .fallback = (int64_t)(fallback_)}

/*
 * {"second": {"target": …, "share": …, "offset_bytes": …, "range_bytes": …}}: the share of
 * operations that goes to another target (hybrid DRAM/PMem). The core has resolved it.
 */
struct mb_second {
    struct mb_target *target; /* NULL: there is none */
    uint64_t offset_bytes, range_bytes;
    double share;
};
bool mb_second_read(const struct mb_job *job, struct mb_second *second, struct tb_error *error);
/* The part of it that belongs to the thread's partition: its first byte, and how many. */
char *mb_second_part(const struct mb_thread *thread, const struct mb_second *second,
                     uint64_t *bytes);

/* ---- instructions ------------------------------------------------------------------ */

/* Words of keys and facts, ended by NULL. */
extern const char *const mb_isa_names[], *const mb_access_names[], *const mb_flush_names[],
    *const mb_fence_names[], *const mb_flush_whens[], *const mb_orders[];

/* What loops/ has by this name for an instruction set. */
#if defined(__x86_64__)
#define MB_BY_ISA(isa, name) \
    ((isa) == MB_AVX512 ? name##_avx512 : (isa) == MB_AVX2 ? name##_avx2 : name##_sse2)
#else
#define MB_BY_ISA(isa, name) ((void)(isa), name##_neon)
#endif

struct mb_cpu {
    char model[128];
    bool isa[MB_ISAS], flush[MB_FLUSHES];
    bool invariant_clock; /* as the processor says; false: looked after (mb_cpu_clock_kept) */
    double clock_hz; /* of the time stamp counter, against CLOCK_MONOTONIC */
    uint64_t clock_step; /* its values differ by multiples of this (26 at 2.6 GHz on Zen: 10 ns) */
    double core_hz;  /* of the core just now: dependent additions */
    uint64_t llc_bytes; /* the last-level cache, as Linux reports it; 0: unknown */
};
/* The machine's, looked up once at the start. */
extern struct mb_cpu mb_cpu;
void mb_cpu_find(void);
/* The clock's rate, at least 50 ms after mb_cpu_find; nothing is timed by it before. */
void mb_cpu_settle(void);
/*
 * A counter that the processor does not call invariant: has it kept its rate by CLOCK_MONOTONIC
 * since the last look? False with the error.
 */
bool mb_cpu_clock_kept(struct tb_error *error);
void mb_cpu_measure_core(void);

/* The key "isa": auto takes the widest that this CPU has; another one must be there. */
#define MB_ISA_KEY(struct_, member) \
    TB_WORD_KEY(struct_, "isa", member, mb_isa_names, 0, MB_ISAS)
bool mb_isa_settle(enum mb_isa *isa, struct tb_error *error);
/* False with an error that names the key where this CPU does not have the flush. */
bool mb_flush_there(const char *key, enum mb_flush flush, struct tb_error *error);

/* What one operation executes. */
struct mb_operation {
    enum mb_isa isa;
    enum mb_access access;
    enum mb_flush flush;
    enum mb_fence fence;
    bool flush_each_line;       /* store, flush, store, flush …; else all stores, then all flushes */
    uint64_t bytes;             /* of one access, a multiple of 64 */
    uint64_t fence_every_bytes; /* = bytes: after each access */
};
/* Its keys, without that of the access. */
#define MB_OPERATION_KEYS(struct_, member)                                                      \
    MB_ISA_KEY(struct_, member.isa),                                                              \
    MB_BYTES_KEY(struct_, "access_bytes", member.bytes, TB_REQUIRED),                             \
    TB_WORD_KEY(struct_, "flush", member.flush, mb_flush_names, 0, MB_NO_FLUSH),                  \
    TB_WORD_KEY(struct_, "fence", member.fence, mb_fence_names, 0, MB_NO_FENCE),                  \
    TB_WORD_KEY(struct_, "flush_when", member.flush_each_line, mb_flush_whens, 0, 0),             \
    MB_BYTES_KEY(struct_, "fence_every_bytes", member.fence_every_bytes, 0)
/* Completes what was read; false with the error where it cannot be done. */
bool mb_operation_settle(const struct mb_job *job, struct mb_operation *operation,
                         struct tb_error *error);

/*
 * Is what this flush and fence wrote durable on this target? "yes", "eADR" (only because
 * the caches survive), or "no"; `why` in words.
 */
const char *mb_durable(const struct mb_target *target, const struct mb_persist *persist,
                       const char **why);
/* The same of all that a job writes: the least that holds on one of its targets. */
const char *mb_durable_job(const struct mb_job *job, const struct mb_persist *persist,
                           const char **why);

/* ---- addresses: generated before the timed part ------------------------------------- */

/* Of interleaved DIMMs each has a block of a stripe (FAST'20, Section 2.1.2). */
#define MB_BLOCK UINT64_C(4096)

struct mb_pattern {
    enum mb_order {
        MB_SEQUENTIAL, MB_SEQUENTIAL_DESC, MB_RANDOM, MB_ZIPF, MB_STRIDED, MB_HOTSPOT, MB_OF_DIMMS
    } order;
    uint64_t stride_bytes;  /* strided: from one access to the next */
    uint64_t hotspot_bytes; /* hotspot: random within so much of the range */
    uint64_t chunk_bytes;   /* sequential threads of one partition take chunks in turn */
    double zipf_exponent;
    uint64_t stripe_bytes;  /* dimms: a block of 4 KiB on each interleaved DIMM */
    int64_t dimms;          /* of these, how many each thread accesses */
};
#define MB_PATTERN_KEYS(struct_, member, usual_order)                                           \
    TB_WORD_KEY(struct_, "pattern", member.order, mb_orders, 0, usual_order),                     \
    MB_BYTES_KEY(struct_, "stride_bytes", member.stride_bytes, 0),                                \
    MB_BYTES_KEY(struct_, "hotspot_bytes", member.hotspot_bytes, 0),                              \
    MB_BYTES_KEY(struct_, "chunk_bytes", member.chunk_bytes, 64 * MB_MIB),                        \
    TB_NUMBER_KEY(struct_, "zipf_exponent", member.zipf_exponent, 0.01, 10, 0.9),                 \
    MB_BYTES_KEY(struct_, "stripe_bytes", member.stripe_bytes, 6 * MB_BLOCK),                     \
    TB_INTEGER_KEY(struct_, "dimms", member.dimms, 1, 64, 1)
/* Completes what was read, for accesses of that size; false with the error where they do not fit. */
bool mb_pattern_settle(const struct mb_job *job, uint64_t access_bytes, struct mb_pattern *pattern,
                       struct tb_error *error);
/*
 * Has a range room for accesses of that size in this order, for each thread that shares it? False
 * with the error. For ranges that mb_pattern_settle does not know: a second target, a chain's step.
 */
bool mb_pattern_fits(const struct mb_job *job, const struct mb_pattern *pattern,
                     uint64_t access_bytes, uint64_t range_bytes, struct tb_error *error);
/*
 * A run of accesses: the i-th begins at mb_span_at(span, i).
 *
 * Scattered ones come from a ring of addresses. After each round all of them move on by another
 * random distance, so that a round touches other lines than the rounds before; not zipf's, whose
 * ring is long instead. A span ends with the next call of its cursor.
 */
struct mb_span {
    char *base;          /* strided: the first access */
    char **scattered;    /* each access; NULL: strided */
    int64_t step_bytes;  /* strided */
    uint64_t count;
};

static inline char *mb_span_at(const struct mb_span *span, uint64_t i)
{
    if (!span->scattered)
        return span->base + (int64_t)i * span->step_bytes;
    return span->scattered[i];
}

/* Where a thread is in its pattern. */
struct mb_cursor {
    struct mb_pattern pattern;
    uint64_t access_bytes;
    char *base;
    uint64_t range_bytes;
    uint32_t sharers, place, thread;
    uint64_t at, lap;     /* sequential, strided: access within the chunk or lap; which */
    char **ring;          /* scattered: where accesses begin */
    uint64_t ring_count;
    struct tb_random random;
};
/* `base` and `range_bytes`: the thread's own, or those of its part of the second target. */
void mb_cursor_init(struct mb_cursor *cursor, const struct mb_thread *thread,
                    const struct mb_pattern *pattern, uint64_t access_bytes, char *base,
                    uint64_t range_bytes, uint64_t stream);
void mb_cursor_free(struct mb_cursor *cursor);
/* The next accesses: at least one, at most `wanted`. */
struct mb_span mb_cursor_next(struct mb_cursor *cursor, uint64_t wanted);

/* ---- clocks ------------------------------------------------------------------------- */

/*
 * Cycles of the time stamp counter. Begin: everything before is done and visible
 * (mfence), nothing of what follows has begun (lfence). End: likewise; the mfence waits
 * until flushed lines and non-temporal stores have left the core's buffers.
 */
#if defined(__x86_64__)
static inline uint64_t mb_clock_read(void)
{
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor)::"memory");
    return (uint64_t)high << 32 | low;
}
static inline void mb_full_fence(void) { __asm__ volatile("mfence" ::: "memory"); }
static inline void mb_load_fence(void) { __asm__ volatile("lfence" ::: "memory"); }
#elif defined(__aarch64__)
static inline uint64_t mb_clock_read(void)
{
    uint64_t cycles;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(cycles)::"memory");
    return cycles;
}
static inline void mb_full_fence(void) { __asm__ volatile("dsb sy" ::: "memory"); }
static inline void mb_load_fence(void) { __asm__ volatile("dsb ld\n\tisb" ::: "memory"); }
#else
#error "microbench knows x86-64 and arm64"
#endif
static inline uint64_t mb_clock_begin(void)
{
    mb_full_fence();
    uint64_t cycles = mb_clock_read();
    mb_load_fence();
    return cycles;
}
static inline uint64_t mb_clock_end(void) { return mb_clock_begin(); }

static inline uint64_t mb_ns(uint64_t cycles)
{
    return (uint64_t)((double)cycles * 1e9 / mb_cpu.clock_hz + 0.5);
}

/*
 * What both native programs share, and the C library's headers that most files need: every file
 * includes it, directly or by a header of its program.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- errors, memory, text, files ---------------------------------------- */

/* An error message for a person: "connect to …: …". */
struct tb_error {
    char text[1024];
};

/* Always false: what fails returns it. */
bool tb_fail(struct tb_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Zeroed memory; aborts the process where there is none. */
void *tb_allocate(size_t count, size_t size);

/* A larger array with the first `used` elements of the old one, which is freed, or NULL. */
void *tb_grow(void *old, size_t used, size_t count, size_t size);

struct tb_text {
    char *bytes;
    size_t length, capacity;
};

void tb_text_add(struct tb_text *text, const char *bytes, size_t length);
void tb_text_printf(struct tb_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes all of it, however often that takes; false with errno. */
bool tb_write_all(int descriptor, const char *bytes, size_t length);
/*
 * Zeroed memory that processes share by a file of this path, NULL: of this process alone. The
 * first one makes the file; munmap frees the memory. NULL with the error.
 */
void *tb_shared_memory(const char *path, size_t bytes, struct tb_error *error);
/* Scans the lines of a file up to the first that fits the format; false where none does. */
bool tb_scan_file(const char *path, const char *format, ...)
    __attribute__((format(scanf, 2, 3)));

/* ---- clocks, in nanoseconds --------------------------------------------- */

#define TB_SECOND UINT64_C(1000000000)
#define TB_MILLISECOND UINT64_C(1000000)

uint64_t tb_monotonic_ns(void);

/* CLOCK_MONOTONIC and CLOCK_REALTIME at one moment: the closest pair of several readings. */
struct tb_moment {
    uint64_t monotonic_ns, realtime_ns;
};
struct tb_moment tb_moment(void);

static inline struct timespec tb_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / TB_SECOND), .tv_nsec = (long)(ns % TB_SECOND)};
}

/* User and system time: of the process, of the calling thread. */
uint64_t tb_process_cpu_ns(void);
uint64_t tb_thread_cpu_ns(void);

/* ---- random numbers ----------------------------------------------------- */

/*
 * Random numbers: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.
 *
 * A stream is a pair (seed, number). Each terminal and each thread has its own, so that what
 * it draws does not depend on how terminals are spread over threads and processes.
 */

/* splitmix64's finalizer (Stafford's variant 13): each bit in changes half of those out. */
static inline uint64_t tb_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct tb_random {
    uint64_t state[4];
};

void tb_random_seed(struct tb_random *random, uint64_t seed, uint64_t stream);
uint64_t tb_random_next(struct tb_random *random);
/* Uniform in [low, high], without bias. */
int64_t tb_random_between(struct tb_random *random, int64_t low, int64_t high);
/* Uniform in (0, 1]. */
double tb_random_fraction(struct tb_random *random);

/* ---- YCSB's distributions ----------------------------------------------- */

/*
 * The random distributions of the official YCSB core (0.17.0): the same formulas and
 * constants, so that the same items are as popular. `u` is uniform in [0, 1).
 */

/* FNV over the eight octets of a number, as Utils.fnvhash64: without its sign. */
uint64_t tb_fnv(uint64_t value);

/* The sum of i^-0.99 over i = first … last; as exact as adding them up one by one. */
double tb_zeta(int64_t first, int64_t last);

/* ZipfianGenerator: items base … base + items - 1, the first the most popular. */
struct tb_zipfian {
    int64_t base, items;
    int64_t counted; /* items that `zetan` is over */
    double zetan, eta;
};

void tb_zipfian_open(struct tb_zipfian *zipfian, int64_t least, int64_t most);
/* ScrambledZipfianGenerator's: over 10^10 items, whatever their number. */
void tb_zipfian_open_scrambled(struct tb_zipfian *zipfian);
/* More items than it was opened for; with fewer it keeps its counts. */
void tb_zipfian_grow(struct tb_zipfian *zipfian, int64_t items);
int64_t tb_zipfian_at(const struct tb_zipfian *zipfian, int64_t items, double u);

/* ---- histograms --------------------------------------------------------- */

/*
 * Histogram of durations in nanoseconds, of HdrHistogram's shape: 1 ns … 1 h, 3 digits.
 *
 * A value is recorded with a relative error of at most 1/1000.
 */

#define TB_HDR_LOWEST_NS INT64_C(1)
#define TB_HDR_HIGHEST_NS INT64_C(3600000000000)
#define TB_HDR_SUB_BITS 11 /* ceil(log2(2 * 10^3)) */
#define TB_HDR_BUCKETS 32  /* 2^(11 + 31) ns > 1 h */
#define TB_HDR_COUNTERS ((TB_HDR_BUCKETS + 1) << (TB_HDR_SUB_BITS - 1))

struct tb_hdr {
    uint64_t total;
    uint64_t *counts; /* by bucket and sub-bucket */
};

/*
 * The same with a counter for eight of its neighbours: 33 KiB, 8 ns … 1 h, 2 digits, a relative
 * error of at most 1/128. Packed, the counts of a second take about a kilobyte.
 */
#define TB_COARSE_SHIFT 3
#define TB_COARSE_COUNTERS (TB_HDR_COUNTERS >> TB_COARSE_SHIFT)

struct tb_coarse_hdr {
    uint64_t counts[TB_COARSE_COUNTERS];
};

/* The counter of a value; values above one hour count as one hour. */
static inline size_t tb_hdr_index(uint64_t value_ns)
{
    if (value_ns > (uint64_t)TB_HDR_HIGHEST_NS)
        value_ns = (uint64_t)TB_HDR_HIGHEST_NS;
    uint64_t first_mask = ((uint64_t)1 << TB_HDR_SUB_BITS) - 1;
    int bucket = 64 - __builtin_clzll(value_ns | first_mask) - TB_HDR_SUB_BITS;
    return ((size_t)bucket << (TB_HDR_SUB_BITS - 1)) + (size_t)(value_ns >> bucket);
}

static inline void tb_hdr_record(struct tb_hdr *histogram, uint64_t value_ns, uint64_t times)
{
    histogram->counts[tb_hdr_index(value_ns)] += times;
    histogram->total += times;
}

static inline void tb_coarse_hdr_record(struct tb_coarse_hdr *histogram, uint64_t value_ns)
{
    histogram->counts[tb_hdr_index(value_ns) >> TB_COARSE_SHIFT]++;
}

void tb_hdr_init(struct tb_hdr *histogram);
void tb_hdr_free(struct tb_hdr *histogram);
void tb_hdr_add(struct tb_hdr *histogram, const struct tb_hdr *other);
/* HdrHistogram V2, compressed, in base64; the caller frees it. */
char *tb_hdr_encode(const struct tb_hdr *histogram);

/* Appends the counts in a compact form. */
void tb_coarse_hdr_pack(const struct tb_coarse_hdr *histogram, struct tb_text *into);
/* Adds counts that were packed. */
void tb_coarse_hdr_add(struct tb_coarse_hdr *histogram, const char *packed, size_t length);
/* As tb_hdr_encode. */
char *tb_coarse_hdr_encode(const struct tb_coarse_hdr *histogram);

/* ---- JSON --------------------------------------------------------------- */

/* The JSON document on stdin, as far as it goes; NULL with the error. */
json_t *tb_read_document(struct tb_error *error);

json_t *tb_integer(uint64_t value);
/* {"monotonic_ns": …, "realtime_ns": …} of this moment. */
json_t *tb_clocks(void);

/* Puts a prefix before the error's text; always false. */
bool tb_fail_within(struct tb_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What else is printed on stdout from now on goes to stderr, the document alone to stdout. */
bool tb_keep_output(struct tb_error *error);

/* Prints the document on one line of stdout and releases it; false, with a message, on failure. */
bool tb_print(json_t *document, const char *program);

/* ---- the keys of a JSON object, in a table that ends with {0} ------------ */

struct tb_param {
    const char *key;
    enum { TB_OTHER /* read by the caller */, TB_INTEGER, TB_NUMBER, TB_FLAG, TB_WORD } type;
    size_t offset, size;           /* of its member */
    int64_t least, most, unit;     /* integers; unit: they are multiples of it, 0: of 1 */
    double lowest, highest;        /* numbers */
    const char *const *words;      /* ended by NULL */
    int first;                     /* value of the first word */
    int64_t fallback;              /* where the key is missing or null; of a word its index, or -1 */
    double number_fallback;
};

/* In place of a fallback: the key is required. */
#define TB_REQUIRED INT64_MIN

#define TB_PLACE(type, member) \
    .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* Integers of 4 or 8 bytes, doubles, bools; words become an enum, or a bool where there are two. */
#define TB_INTEGER_KEY(struct_, key_, member, least_, most_, fallback_)            \
    {.key = (key_), .type = TB_INTEGER, TB_PLACE(struct_, member), .least = (least_), \
     .most = (most_), .fallback = (int64_t)(fallback_)}
#define TB_NUMBER_KEY(struct_, key_, member, lowest_, highest_, fallback_)           \
    {.key = (key_), .type = TB_NUMBER, TB_PLACE(struct_, member), .lowest = (lowest_), \
     .highest = (highest_), .number_fallback = (fallback_)}
#define TB_FLAG_KEY(struct_, key_, member, fallback_) \
    {.key = (key_), .type = TB_FLAG, TB_PLACE(struct_, member), .fallback = (fallback_)}
#define TB_WORD_KEY(struct_, key_, member, words_, first_, fallback_) \
    {.key = (key_), .type = TB_WORD, TB_PLACE(struct_, member), .words = (words_),       \
     .first = (first_), .fallback = (fallback_)}
#define TB_OTHER_KEY(key_) {.key = (key_), .type = TB_OTHER}

/* Reads the keys of `object` into `to`; false with an error that names the key. */
bool tb_params_read(const struct tb_param *params, const json_t *object, void *to,
                    struct tb_error *error);
/* Whether `object` is one whose keys are all in the tables (`more` may be NULL). */
bool tb_params_known(const struct tb_param *params, const struct tb_param *more,
                     const json_t *object, struct tb_error *error);

/* ---- progress ----------------------------------------------------------- */

/*
 * Progress: JSON lines on descriptor 3, if the parent process has opened it.
 *
 * A reader that does not read must not hold up the load: the descriptor does not block, and a
 * line that does not fit into the pipe is dropped. A line is shorter than PIPE_BUF, so it arrives
 * whole or not at all. Results are no load: their lines are waited for.
 */

/* Before any other descriptor is opened. */
void tb_progress_open(void);
/*
 * Stops reporting. Descriptor 3 may be the same pipe as stdout (on a client host: ssh has no
 * third descriptor), and the result waits for its reader.
 */
void tb_progress_close(void);
/*
 * One line {"event": …, "monotonic_ns": …, "counts": {…}}; callable from any thread. `counts`
 * may be NULL and stays the caller's.
 */
void tb_progress(const char *event, json_t *counts);
/* The same with a histogram as the member "latency_hdr"; without it where the line has no room. */
void tb_progress_with(const char *event, json_t *counts, const char *latency_hdr);
/*
 * The same, of any length: it waits for its reader, so only while nothing is measured. False if
 * there is none.
 */
bool tb_progress_whole(const char *event, json_t *counts);

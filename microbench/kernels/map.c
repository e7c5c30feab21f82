/*
 * What mapping memory costs: the start of a buffer pool.
 *
 *   {"name": "start", "kind": "map", "target": "t0", "threads": 4, "operation": "populate",
 *    "shared": false}
 *
 * Each operation maps a thread's part of the range again, touches all its pages and releases it.
 * Timed is one of these: `map` (with the policy of its memory), `touch`, `populate` (both), `release`.
 * What is not timed is left out of rates. Anonymous memory is new each time, and Linux fills it with
 * zeros; a file or a device has its content, and its pages are only entered into page tables.
 *
 * `pages` is by the page faults of touching, one a page; of `map` alone it is what was requested.
 */
#include "kernel.h"
#include "target.h"

#include <sys/mman.h>

struct mapping {
    enum mapping_operation { MAP_ALONE, TOUCH, POPULATE, RELEASE } operation;
    bool shared;
    _Atomic uint64_t faults, touched_bytes;
};

static const char *const operations[] = {"map", "touch", "populate", "release", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct mapping, "operation", operation, operations, 0, -1),
    TB_FLAG_KEY(struct mapping, "shared", shared, false),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    const struct mapping *mapping = job->params;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t unit = job->target->kind == MB_DEVDAX ? MB_HUGE_PAGE : page;
    if (mapping->shared && job->target->kind != MB_DRAM)
        return tb_fail(error, "shared: only of memory: a file or device always is");
    if (job->target->extents > 1 || (job->target->extents && job->target->placement->turn))
        return tb_fail(error, "target: weights and parts are not mapped again");
    return (mb_thread_bytes(job) > 0 && mb_thread_bytes(job) % unit == 0 &&
            job->offset_bytes % unit == 0) ||
           tb_fail(error, "range_bytes: the part of each thread must be whole pages of %" PRIu64
                          " bytes", unit);
}

static void begin(struct mb_thread *thread)
{
    struct mapping *mapping = thread->job->params;
    atomic_store(&mapping->faults, 0);
    atomic_store(&mapping->touched_bytes, 0);
}

static uint64_t faults_now(void)
{
    struct mb_faults faults = mb_thread_faults();
    return faults.minor + faults.major;
}

/* Maps, touches, releases; the time of each in ns. */
static bool map_once(struct mb_thread *thread, uint64_t took_ns[3])
{
    const struct mb_job *job = thread->job;
    struct mapping *mapping = job->params;
    uint64_t bytes = mb_thread_bytes(job);
    uint64_t offset = job->offset_bytes + thread->index / thread->sharers * thread->range_bytes +
                      thread->place * bytes;
    struct mb_part part;
    if (!mb_part_reserve(&part, job->target, offset, bytes, mapping->shared, &thread->error))
        return false;
    uint64_t begun = tb_monotonic_ns();
    bool mapped = mb_part_map(&part, &thread->error);
    uint64_t done = tb_monotonic_ns(), faults = faults_now();
    took_ns[0] = done - begun;
    took_ns[1] = 0;
    if (mapped && mapping->operation != MAP_ALONE) {
        begun = tb_monotonic_ns();
        mapped = mb_part_touch(&part, &thread->error);
        took_ns[1] = tb_monotonic_ns() - begun;
        atomic_fetch_add(&mapping->faults, faults_now() - faults);
        atomic_fetch_add(&mapping->touched_bytes, bytes);
    }
    begun = tb_monotonic_ns();
    mb_part_release(&part);
    took_ns[2] = tb_monotonic_ns() - begun;
    return mapped;
}

static void work(struct mb_thread *thread, uint64_t count)
{
    const struct mapping *mapping = thread->job->params;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t took_ns[3] = {0}, begun = tb_monotonic_ns();
        if (!map_once(thread, took_ns))
            return;
        uint64_t timed = mapping->operation == MAP_ALONE  ? took_ns[0]
                         : mapping->operation == TOUCH    ? took_ns[1]
                         : mapping->operation == POPULATE ? took_ns[0] + took_ns[1]
                                                          : took_ns[2];
        if (thread->recording)
            tb_hdr_record(&thread->latency, timed, 1);
        thread->done.operations++;
        uint64_t all = tb_monotonic_ns() - begun;
        thread->done.excluded_ns += all > timed ? all - timed : 0;
    }
}

static void report(const struct mb_job *job, json_t *facts)
{
    struct mapping *mapping = job->params;
    uint64_t bytes = atomic_load(&mapping->touched_bytes), faults = atomic_load(&mapping->faults);
    const char *pages = job->target->kind == MB_DRAM ? mb_target_pages[job->target->pages] : "file";
    if (faults)
        pages = bytes / faults > MB_HUGE_PAGE / 2 ? "huge"
                : bytes / faults < 64 * MB_KIB    ? "base"
                                                  : "mixed";
    json_object_set_new(facts, "pages", json_string(pages));
    json_object_set_new(facts, "bytes_an_operation", json_integer((json_int_t)mb_thread_bytes(job)));
}

const struct mb_kernel mb_map = {
    .name = "map",
    .params = params,
    .params_bytes = sizeof(struct mapping),
    .has_latency = true,
    .maps_itself = true,
    .validate = validate,
    .begin = begin,
    .work = work,
    .report = report,
};

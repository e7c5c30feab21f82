/*
 * Reads and writes of a file by system calls, as a database makes them of its data files and log.
 *
 *   {"name": "commit", "kind": "file", "target": "t0", "threads": 4, "operation": "write",
 *    "pattern": "sequential", "access_bytes": 8192, "sync": "fdatasync", "direct": "auto"}
 *
 * An operation is one pread or pwrite, then a sync after every `sync_every`-th write of a thread.
 * Threads of a partition share its part of the range: sequential ones take the next access in
 * turn, as the writers of one log do. Its file was written beforehand (preallocated); with
 * `appends` it is a new one that grows until it is as large as the part, and is cut to nothing
 * then. That time is no part of any figure (`truncating_ns`, of all threads together).
 *
 * `direct` goes past the page cache: `auto` where file system and size allow it. A job through the
 * page cache finds its range there (with `cold`, nothing of what an operation reads), another one
 * finds it empty. With a `queue_depth` above 1 each thread has that number of calls under way, by
 * io_uring.
 *
 * A database uses memory between its calls, so that the kernel finds little of its own in the
 * processor's caches: with `touch_bytes` each thread writes to so much memory before an operation.
 * Its threads run on all processors, of which one gets the device's interrupts and wakes a thread on
 * another one later: with `migrate` each thread goes to its next processor before an operation.
 * Neither that time nor its processor time is part of a figure.
 *
 * The first word of each 4 KiB of a file states its place: every read that begins there is checked,
 * and after each repeat a sample of the file.
 */
#include "io_ring.h"
#include "kernel.h"
#include "target.h"
#include "timer_overhead.h"

#include <sys/stat.h>

enum { MOST_DEPTH = 1024, MOST_ACCESS = 1 << 30, SAMPLES = 64, BUFFER_UNIT = 4096 };
enum sync { NO_SYNC, FSYNC, FDATASYNC, DSYNC };
enum direct { DIRECT_AUTO, DIRECT_YES, DIRECT_NO };
static const char *const operations[] = {"read", "write", NULL};
static const char *const patterns[] = {"sequential", "random", NULL};
static const char *const syncs[] = {"none", "fsync", "fdatasync", "dsync", NULL};
static const char *const directs[] = {"auto", "yes", "no", NULL};

/* What the threads of a partition share. */
struct part {
    int fd; /* of the file; those of its threads are others */
    uint64_t first_byte;
    _Atomic uint64_t next;   /* access in turn */
    pthread_rwlock_t growth; /* of a file that grows: who cuts it writes, who appends reads */
};

struct file_job {
    bool write, random, appends;
    enum sync sync;
    enum direct direct;
    bool cold, migrate;
    uint64_t access_bytes, sync_every, touch_bytes;
    uint32_t queue_depth;

    int flags; /* of its threads' descriptors */
    uint64_t accesses; /* of a part */
    struct part *parts;
    struct tb_hdr calls, syncs; /* of all threads, from `begin` to `report` */
    _Atomic uint64_t truncating_ns, laps;
    struct mb_timer_overhead overhead;
};

struct caller {
    int fd;
    struct part *part;
    char *buffers; /* queue_depth of them */
    char *touched; /* touch_bytes of memory */
    cpu_set_t cpus; /* it may run on */
    int cpu;
    uint64_t until_sync;
    struct tb_hdr calls, syncs; /* where an operation is both */
    struct mb_ring ring;
    struct request {
        uint64_t offset, begin;
    } *requests;
    uint32_t *idle, idle_count; /* requests that are not under way */
};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct file_job, "operation", write, operations, 0, -1),
    TB_WORD_KEY(struct file_job, "pattern", random, patterns, 0, 1),
    MB_BYTES_KEY(struct file_job, "access_bytes", access_bytes, TB_REQUIRED),
    TB_WORD_KEY(struct file_job, "sync", sync, syncs, 0, NO_SYNC),
    TB_INTEGER_KEY(struct file_job, "sync_every", sync_every, 1, INT32_MAX, 1),
    TB_WORD_KEY(struct file_job, "direct", direct, directs, 0, DIRECT_AUTO),
    TB_INTEGER_KEY(struct file_job, "queue_depth", queue_depth, 1, MOST_DEPTH, 1),
    TB_FLAG_KEY(struct file_job, "appends", appends, false),
    TB_FLAG_KEY(struct file_job, "cold", cold, false),
    TB_FLAG_KEY(struct file_job, "migrate", migrate, false),
    MB_BYTES_KEY(struct file_job, "touch_bytes", touch_bytes, 0),
    {0},
};

/* ---- before a measurement ---- */

static bool contradicts(const struct mb_job *job, const struct file_job *file,
                        struct tb_error *error)
{
    bool called = file->sync == FSYNC || file->sync == FDATASYNC;
    if (file->sync != NO_SYNC && !file->write)
        return !tb_fail(error, "sync: a read is not synced");
    if (file->sync_every > 1 && !called)
        return !tb_fail(error, "sync_every: goes with sync fsync or fdatasync");
    if (file->appends && (!file->write || file->random))
        return !tb_fail(error, "appends: only sequential writes make a file longer");
    if (file->queue_depth > 1 && (called || file->appends || file->direct == DIRECT_NO))
        return !tb_fail(error, "queue_depth: must be 1 with sync fsync or fdatasync, with appends "
                               "and with direct no");
    if (file->queue_depth > 1 && (job->pace.bytes_per_second || job->pace.pause_ns))
        return !tb_fail(error, "queue_depth: must be 1 with a pace");
    if (file->queue_depth > 1 && (file->touch_bytes || file->migrate))
        return !tb_fail(error, "queue_depth: must be 1 with touch_bytes and with migrate");
    if (file->cold && (file->write || file->direct != DIRECT_NO))
        return !tb_fail(error, "cold: only reads with direct no find the page cache empty");
    if (file->direct == DIRECT_YES && file->access_bytes % 512 != 0)
        return !tb_fail(error, "access_bytes: must be a multiple of 512 with direct yes");
    return false;
}

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct file_job *file = job->params;
    struct stat place;
    if (job->target->kind != MB_FILE)
        return tb_fail(error, "target: kind file needs a target of kind file");
    if (contradicts(job, file, error))
        return false;
    if (file->appends && (stat(job->target->path, &place) != 0 || !S_ISDIR(place.st_mode)))
        return tb_fail(error, "appends: needs a target in a directory");
    if (file->access_bytes > MOST_ACCESS)
        return tb_fail(error, "access_bytes: must be <= %d", MOST_ACCESS);
    file->accesses = job->range_bytes / job->partitions / file->access_bytes;
    if (file->accesses == 0)
        return tb_fail(error, "range_bytes: each of %" PRIu32 " parts needs an access", job->partitions);
    file->parts = tb_allocate(job->partitions, sizeof *file->parts);
    for (uint32_t i = 0; i < job->partitions; i++) {
        file->parts[i] = (struct part){.fd = -1};
        pthread_rwlock_init(&file->parts[i].growth, NULL);
    }
    return true;
}

static void free_histograms(struct file_job *file)
{
    tb_hdr_free(&file->calls);
    tb_hdr_free(&file->syncs);
    file->calls = file->syncs = (struct tb_hdr){0};
}

static void release(struct mb_job *job)
{
    struct file_job *file = job->params;
    for (uint32_t i = 0; file->parts && i < job->partitions; i++) {
        if (file->appends && file->parts[i].fd >= 0)
            close(file->parts[i].fd);
        pthread_rwlock_destroy(&file->parts[i].growth);
    }
    free(file->parts);
    free_histograms(file);
}

/* The same file by another descriptor: with flags of its own, and without a name, too. */
static int open_again(int fd, int flags)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC | flags);
}

static char *buffers_of(size_t count, uint64_t bytes)
{
    void *buffers;
    if (posix_memalign(&buffers, BUFFER_UNIT, count * bytes) == 0)
        return buffers;
    fprintf(stderr, "microbench: no memory for %zu buffers of %" PRIu64 " bytes\n", count, bytes);
    abort();
}

/* Do reads of that size go past the page cache? Errors of it are errno. */
static bool goes_direct(const struct mb_job *job, const struct file_job *file)
{
    int fd = open_again(job->target->fd, O_DIRECT);
    if (fd < 0)
        return false;
    char *buffer = buffers_of(1, file->access_bytes);
    uint64_t second = file->accesses > 1 ? file->access_bytes : 0;
    ssize_t moved = pread(fd, buffer, file->access_bytes, (off_t)(job->offset_bytes + second));
    int reason = errno;
    free(buffer);
    close(fd);
    errno = reason;
    return moved >= 0;
}

/* So that the page cache has the range, as far as there is memory. */
static bool fill_page_cache(const struct mb_job *job, struct tb_error *error)
{
    char *buffer = buffers_of(1, MB_MIB);
    ssize_t moved = 1;
    for (uint64_t at = 0; at < job->range_bytes && moved > 0; at += (uint64_t)moved)
        moved = pread(job->target->fd, buffer, MB_MIB, (off_t)(job->offset_bytes + at));
    free(buffer);
    return moved >= 0 || tb_fail(error, "reading the file: %s", strerror(errno));
}

static bool open_part(const struct mb_job *job, struct file_job *file, uint32_t index,
                      struct tb_error *error)
{
    struct part *part = &file->parts[index];
    part->fd = job->target->fd;
    part->first_byte = job->offset_bytes + index * file->accesses * file->access_bytes;
    if (!file->appends)
        return true;
    part->first_byte = 0;
    part->fd = open(job->target->path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return part->fd >= 0 || tb_fail(error, "a new file in %s: %s", job->target->path,
                                    strerror(errno));
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct file_job *file = job->params;
    char nothing[MB_LINE];
    bool direct = file->direct != DIRECT_NO && goes_direct(job, file);
    if (file->direct == DIRECT_YES && !direct)
        return tb_fail(error, "direct: %" PRIu64 " bytes cannot go past the page cache: %s",
                       file->access_bytes, strerror(errno));
    if (file->queue_depth > 1 && !direct)
        return tb_fail(error, "queue_depth: must be 1 where calls go through the page cache");
    file->flags = (direct ? O_DIRECT : 0) | (file->sync == DSYNC ? O_DSYNC : 0);
    for (uint32_t i = 0; i < job->partitions; i++)
        if (!open_part(job, file, i, error))
            return false;
    if (fdatasync(job->target->fd) != 0) /* what other jobs wrote is not written in this one */
        return tb_fail(error, "writing the file: %s", strerror(errno));
    mb_timer_overhead_measure(&file->overhead, MB_SSE2, nothing);
    if (!direct && !file->cold)
        return file->appends || fill_page_cache(job, error);
    /* Each write past the page cache would first take its pages out of it. Folios that are larger
     * than what a cold read reads could not be evicted before it. */
    posix_fadvise(job->target->fd, (off_t)job->offset_bytes, (off_t)job->range_bytes,
                  POSIX_FADV_DONTNEED);
    return true;
}

/* ---- calls ---- */

static void begin(struct mb_thread *thread)
{
    struct file_job *file = thread->job->params;
    struct caller *caller = thread->own = tb_allocate(1, sizeof *caller);
    caller->part = &file->parts[thread->index / thread->sharers];
    caller->until_sync = file->sync_every;
    caller->ring.fd = -1;
    caller->buffers = buffers_of(file->queue_depth, file->access_bytes);
    for (uint64_t at = 0; at < file->queue_depth * file->access_bytes; at += sizeof(uint64_t))
        *(uint64_t *)(void *)(caller->buffers + at) = tb_random_next(&thread->random);
    caller->cpu = CPU_SETSIZE - 1;
    if (sched_getaffinity(0, sizeof caller->cpus, &caller->cpus) != 0)
        tb_fail(&thread->error, "processors: %s", strerror(errno));
    if (file->touch_bytes) {
        caller->touched = buffers_of(1, file->touch_bytes);
        memset(caller->touched, 1, file->touch_bytes);
    }
    tb_hdr_init(&caller->calls);
    tb_hdr_init(&caller->syncs);
    if (thread->index == 0) {
        free_histograms(file);
        tb_hdr_init(&file->calls);
        tb_hdr_init(&file->syncs);
        file->truncating_ns = file->laps = 0;
    }
    if (thread->place == 0)
        atomic_store(&caller->part->next, 0);
    if (thread->place == 0 && file->appends && ftruncate(caller->part->fd, 0) != 0)
        tb_fail(&thread->error, "cutting the file: %s", strerror(errno));
    caller->fd = open_again(caller->part->fd, file->flags);
    if (caller->fd < 0)
        tb_fail(&thread->error, "opening the file: %s", strerror(errno));
    if (file->queue_depth == 1)
        return;
    caller->requests = tb_allocate(file->queue_depth, sizeof *caller->requests);
    caller->idle = tb_allocate(file->queue_depth, sizeof *caller->idle);
    for (uint32_t i = 0; i < file->queue_depth; i++)
        caller->idle[caller->idle_count++] = i;
    if (!mb_ring_open(&caller->ring, file->queue_depth))
        tb_fail(&thread->error, "queue_depth: io_uring: %s", strerror(errno));
}

static uint64_t next_offset(struct mb_thread *thread, const struct file_job *file,
                            struct part *part)
{
    uint64_t access = file->random ? tb_random_next(&thread->random) >> 11
                                   : atomic_fetch_add_explicit(&part->next, 1, memory_order_relaxed);
    return part->first_byte + access % file->accesses * file->access_bytes;
}

/* A read's first word, if it is that of a 4 KiB block, must tell the block. */
static bool at_its_place(struct mb_thread *thread, const char *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return offset % MB_STAMPED_BYTES != 0 || word == mb_stamp(offset) ||
           tb_fail(&thread->error, "the file does not have at byte %" PRIu64 " what was written "
                                   "there", offset);
}

static bool failed_call(struct mb_thread *thread, const struct file_job *file, uint64_t offset,
                        const char *reason)
{
    return tb_fail(&thread->error, "%s of %" PRIu64 " bytes at %" PRIu64 ": %s",
                   file->write ? "write" : "read", file->access_bytes, offset, reason);
}

static bool transfer(struct mb_thread *thread, const struct file_job *file, uint64_t offset)
{
    const struct caller *caller = thread->own;
    uint64_t moved = 0;
    while (moved < file->access_bytes) {
        char *bytes = caller->buffers + moved;
        size_t left = file->access_bytes - moved;
        off_t at = (off_t)(offset + moved);
        ssize_t more = file->write ? pwrite(caller->fd, bytes, left, at)
                                   : pread(caller->fd, bytes, left, at);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return failed_call(thread, file, offset, more ? strerror(errno) : "the file ends");
        moved += (uint64_t)more;
    }
    return true;
}

static bool sync_file(struct mb_thread *thread, const struct file_job *file)
{
    const struct caller *caller = thread->own;
    int status = file->sync == FSYNC ? fsync(caller->fd) : fdatasync(caller->fd);
    return status == 0 || tb_fail(&thread->error, "%s: %s", syncs[file->sync], strerror(errno));
}

static void go_to_next_processor(struct caller *caller)
{
    cpu_set_t next;
    do
        caller->cpu = (caller->cpu + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(caller->cpu, &caller->cpus));
    CPU_ZERO(&next);
    CPU_SET(caller->cpu, &next);
    sched_setaffinity(0, sizeof next, &next); /* one that was taken away meanwhile: it stays */
}

/* What comes between two operations, and is not measured. */
static void come_between(struct mb_thread *thread, const struct file_job *file, uint64_t offset)
{
    struct caller *caller = thread->own;
    if (!file->cold && !file->touch_bytes && !file->migrate)
        return;
    uint64_t from = tb_monotonic_ns(), cpu_from = tb_thread_cpu_ns();
    if (file->migrate && CPU_COUNT(&caller->cpus) > 1)
        go_to_next_processor(caller);
    if (file->cold)
        posix_fadvise(caller->fd, (off_t)offset, (off_t)file->access_bytes, POSIX_FADV_DONTNEED);
    volatile char *touched = caller->touched;
    for (uint64_t at = 0; at < file->touch_bytes; at += MB_LINE)
        touched[at]++;
    thread->done.excluded_cpu_ns += tb_thread_cpu_ns() - cpu_from;
    thread->done.excluded_ns += tb_monotonic_ns() - from;
}

/* One operation, with its sync where that is due. */
static bool operate(struct mb_thread *thread, const struct file_job *file, uint64_t offset)
{
    struct caller *caller = thread->own;
    come_between(thread, file, offset);
    bool called = file->sync == FSYNC || file->sync == FDATASYNC;
    bool due = called && --caller->until_sync == 0;
    if (file->write)
        mb_stamp_all(caller->buffers, offset, file->access_bytes);
    uint64_t from = mb_clock_begin();
    if (!transfer(thread, file, offset))
        return false;
    uint64_t written = called ? mb_clock_end() : 0;
    if (due && !sync_file(thread, file))
        return false;
    uint64_t to = due || !called ? mb_clock_end() : written;
    if (due)
        caller->until_sync = file->sync_every;
    if (thread->recording) {
        tb_hdr_record(&thread->latency, mb_ns(to - from), 1);
        if (called)
            tb_hdr_record(&caller->calls, mb_ns(written - from), 1);
        if (due)
            tb_hdr_record(&caller->syncs, mb_ns(to - written), 1);
    }
    return file->write || at_its_place(thread, caller->buffers, offset);
}

/* The file is as large as its part: it starts again, once nobody writes to it. */
static __attribute__((noinline)) bool next_lap(struct mb_thread *thread, struct file_job *file,
                                               struct part *part)
{
    uint64_t from = tb_monotonic_ns();
    pthread_rwlock_wrlock(&part->growth);
    bool full = atomic_load(&part->next) >= file->accesses;
    bool cut = !full || ftruncate(part->fd, 0) == 0;
    int reason = errno;
    if (full && cut) {
        atomic_store(&part->next, 0);
        atomic_fetch_add(&file->laps, thread->recording);
    }
    pthread_rwlock_unlock(&part->growth);
    uint64_t taken = tb_monotonic_ns() - from;
    thread->done.excluded_ns += taken;
    atomic_fetch_add(&file->truncating_ns, thread->recording ? taken : 0);
    return cut || tb_fail(&thread->error, "cutting the file: %s", strerror(reason));
}

/* Locked until the access is done, so that the file is not cut meanwhile; false: it is full. */
static bool take_access(struct mb_thread *thread, const struct file_job *file, struct part *part,
                        uint64_t *offset)
{
    if (pthread_rwlock_tryrdlock(&part->growth) != 0) { /* it is being cut */
        uint64_t from = tb_monotonic_ns();
        pthread_rwlock_rdlock(&part->growth);
        thread->done.excluded_ns += tb_monotonic_ns() - from;
    }
    uint64_t access = atomic_fetch_add(&part->next, 1);
    *offset = access * file->access_bytes;
    if (access < file->accesses)
        return true;
    pthread_rwlock_unlock(&part->growth);
    return false;
}

static bool append(struct mb_thread *thread, struct file_job *file)
{
    struct part *part = ((struct caller *)thread->own)->part;
    uint64_t offset;
    while (!take_access(thread, file, part, &offset))
        if (!next_lap(thread, file, part))
            return false;
    bool written = operate(thread, file, offset);
    pthread_rwlock_unlock(&part->growth);
    return written;
}

static uint64_t work_one_by_one(struct mb_thread *thread, uint64_t count)
{
    struct file_job *file = thread->job->params;
    struct part *part = ((struct caller *)thread->own)->part;
    for (uint64_t i = 0; i < count; i++) {
        bool did = file->appends ? append(thread, file)
                                 : operate(thread, file, next_offset(thread, file, part));
        if (!did)
            return i;
    }
    return count;
}

/* ---- several calls under way ---- */

static void queue(struct mb_thread *thread, const struct file_job *file, uint32_t index)
{
    struct caller *caller = thread->own;
    struct request *request = &caller->requests[index];
    char *buffer = caller->buffers + index * file->access_bytes;
    request->offset = next_offset(thread, file, caller->part);
    if (file->write)
        mb_stamp_all(buffer, request->offset, file->access_bytes);
    request->begin = mb_clock_begin();
    mb_ring_queue(&caller->ring, &(struct mb_request){.write = file->write, .fd = caller->fd,
                                                      .buffer = buffer,
                                                      .bytes = (uint32_t)file->access_bytes,
                                                      .offset = request->offset, .id = index});
}

static bool take(struct mb_thread *thread, const struct file_job *file, uint64_t index, int result)
{
    struct caller *caller = thread->own;
    const struct request *request = &caller->requests[index];
    uint64_t taken = mb_clock_end() - request->begin;
    caller->idle[caller->idle_count++] = (uint32_t)index;
    if (result < 0)
        return failed_call(thread, file, request->offset, strerror(-result));
    if ((uint64_t)result != file->access_bytes)
        return failed_call(thread, file, request->offset, "only a part was done");
    if (thread->recording)
        tb_hdr_record(&thread->latency, mb_ns(taken), 1);
    return file->write ||
           at_its_place(thread, caller->buffers + index * file->access_bytes, request->offset);
}

/*
 * As many are under way from one call of this to the next, so that the device is never idle. Each
 * is handed over by itself as soon as there is room, as fio does.
 */
static uint64_t work_queued(struct mb_thread *thread, uint64_t count)
{
    const struct file_job *file = thread->job->params;
    struct caller *caller = thread->own;
    uint64_t done = 0, index;
    int result;
    while (done < count) {
        bool handed_over = true;
        while (handed_over && caller->idle_count > 0) {
            queue(thread, file, caller->idle[--caller->idle_count]);
            handed_over = mb_ring_submit(&caller->ring, 0);
        }
        if (handed_over && mb_ring_take(&caller->ring, &index, &result)) {
            if (!take(thread, file, index, result))
                return done;
            done++;
        } else if (!handed_over || !mb_ring_submit(&caller->ring, 1)) {
            tb_fail(&thread->error, "io_uring: %s", strerror(errno));
            return done;
        }
    }
    return done;
}

/* Buffers are written to until all are done. */
static void drain(struct mb_thread *thread, const struct file_job *file)
{
    struct caller *caller = thread->own;
    uint64_t index;
    int result;
    if (caller->ring.fd < 0)
        return;
    while (caller->idle_count < file->queue_depth && mb_ring_submit(&caller->ring, 1))
        while (mb_ring_take(&caller->ring, &index, &result))
            caller->idle[caller->idle_count++] = (uint32_t)index;
    mb_ring_close(&caller->ring);
}

/* ---- kernel ---- */

static void work(struct mb_thread *thread, uint64_t count)
{
    const struct file_job *file = thread->job->params;
    if (*thread->error.text)
        return;
    uint64_t done = file->queue_depth > 1 ? work_queued(thread, count)
                                          : work_one_by_one(thread, count);
    thread->done.operations += done;
    thread->done.read_bytes += file->write ? 0 : done * file->access_bytes;
    thread->done.written_bytes += file->write ? done * file->access_bytes : 0;
}

static void end(struct mb_thread *thread)
{
    static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
    struct file_job *file = thread->job->params;
    struct caller *caller = thread->own;
    drain(thread, file);
    pthread_mutex_lock(&adding);
    tb_hdr_add(&file->calls, &caller->calls);
    tb_hdr_add(&file->syncs, &caller->syncs);
    pthread_mutex_unlock(&adding);
    tb_hdr_free(&caller->calls);
    tb_hdr_free(&caller->syncs);
    if (caller->fd >= 0)
        close(caller->fd);
    free(caller->requests);
    free(caller->idle);
    free(caller->buffers);
    free(caller->touched);
}

/* A sample of the blocks of a part tell their place. */
static bool check_stamps(const struct part *part, uint64_t bytes, struct tb_error *error)
{
    uint64_t first = (part->first_byte + MB_STAMPED_BYTES - 1) / MB_STAMPED_BYTES;
    uint64_t end = (part->first_byte + bytes) / MB_STAMPED_BYTES, word;
    for (uint64_t i = 0; first < end && i < SAMPLES; i++) {
        uint64_t at = (first + (end - first) * i / SAMPLES) * MB_STAMPED_BYTES;
        if (pread(part->fd, &word, sizeof word, (off_t)at) != sizeof word)
            return tb_fail(error, "reading the file at %" PRIu64 ": %s", at, strerror(errno));
        if (word != mb_stamp(at))
            return tb_fail(error, "the file does not have at byte %" PRIu64 " what was written "
                                  "there", at);
    }
    return true;
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    const struct file_job *file = job->params;
    for (uint32_t i = 0; i < job->partitions; i++) {
        struct part *part = &file->parts[i];
        uint64_t written = atomic_load(&part->next), bytes = file->accesses * file->access_bytes;
        struct stat grown;
        if (file->appends && written < file->accesses)
            bytes = written * file->access_bytes;
        if (file->appends && (fstat(part->fd, &grown) != 0 || (uint64_t)grown.st_size != bytes))
            return tb_fail(error, "the file has %jd bytes, %" PRIu64 " were appended",
                           (intmax_t)grown.st_size, bytes);
        if (!check_stamps(part, bytes, error))
            return false;
        if (file->appends && ftruncate(part->fd, 0) != 0) /* its bytes are not needed any more */
            return tb_fail(error, "cutting the file: %s", strerror(errno));
    }
    return true;
}

static void report_calls(json_t *facts, const char *key, const struct tb_hdr *histogram)
{
    char *text = histogram->total ? tb_hdr_encode(histogram) : NULL;
    json_object_set_new(facts, key, text ? json_string(text) : json_null());
    free(text);
}

static void report(const struct mb_job *job, json_t *facts)
{
    struct file_job *file = job->params;
    json_object_set_new(facts, "direct", json_boolean(file->flags & O_DIRECT));
    mb_timer_overhead_report(&file->overhead, facts);
    if (file->sync == FSYNC || file->sync == FDATASYNC) {
        report_calls(facts, "write_call_hdr", &file->calls);
        report_calls(facts, "sync_hdr", &file->syncs);
    }
    free_histograms(file);
    if (!file->appends)
        return;
    json_object_set_new(facts, "truncating_ns", tb_integer(file->truncating_ns));
    json_object_set_new(facts, "laps", tb_integer(file->laps));
}

const struct mb_kernel mb_file = {
    .name = "file",
    .params = params,
    .params_bytes = sizeof(struct file_job),
    .has_latency = true,
    .by_calls = true,
    .validate = validate,
    .release = release,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .check = check,
    .report = report,
};

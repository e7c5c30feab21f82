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
 * then. That time is no part of any figure (`truncating_ns`, of all threads together). Each writer
 * syncs for itself; with `grouped` a sync serves all that wait, as databases' group commit does.
 *
 * `direct` goes past the page cache: `auto` where file system and size allow it. A job through the
 * page cache finds its range there (with `cold`, nothing of what an operation reads; sequential reads
 * only what was read ahead), another one finds it empty. With a `queue_depth` above 1 each thread has that number of calls under way, by
 * io_uring.
 *
 * A database uses memory between its calls, so that the kernel finds little of its own in the
 * processor's caches: with `touch_bytes` each thread writes to so much memory before an operation.
 * Its threads run on all processors, of which one gets the device's interrupts and wakes a thread on
 * another one later: with `migrate` each thread goes to its next processor before an operation.
 * Linux notes a file's time with the first write of a tick of its clock (4 ms at 250 Hz), and on a file
 * system without a journal the next sync writes the inode: in one of 40 that follow one another, but in
 * each of a log that is synced every 4 ms. With `retimed` the file's time is set back before each write.
 * Neither that time nor its processor time is part of a figure.
 * With `outside`, what an operation uses of the processors outside of all threads is measured, while
 * nothing else runs (file_outside.c).
 *
 * The first word of each 4 KiB of a file states its place: every read that begins there is checked,
 * and after each repeat a sample of the file.
 */
#include "file.h"

#include <sys/stat.h>

enum { MOST_DEPTH = 1024, MOST_ACCESS = 1 << 30, SAMPLES = 64, BUFFER_UNIT = 4096 };
static const char *const operations[] = {"read", "write", NULL};
static const char *const patterns[] = {"sequential", "random", NULL};
static const char *const syncs[] = {"none", "fsync", "fdatasync", "dsync", NULL};
static const char *const directs[] = {"auto", "yes", "no", NULL};

static const struct tb_param params[] = {
    TB_WORD_KEY(struct file_job, "operation", write, operations, 0, -1),
    TB_WORD_KEY(struct file_job, "pattern", random, patterns, 0, 1),
    MB_BYTES_KEY(struct file_job, "access_bytes", access_bytes, TB_REQUIRED),
    TB_WORD_KEY(struct file_job, "sync", sync, syncs, 0, NO_SYNC),
    TB_INTEGER_KEY(struct file_job, "sync_every", sync_every, 1, INT32_MAX, 1),
    TB_WORD_KEY(struct file_job, "direct", direct, directs, 0, DIRECT_AUTO),
    TB_INTEGER_KEY(struct file_job, "queue_depth", queue_depth, 1, MOST_DEPTH, 1),
    TB_FLAG_KEY(struct file_job, "appends", appends, false),
    TB_FLAG_KEY(struct file_job, "grouped", grouped, false),
    TB_FLAG_KEY(struct file_job, "cold", cold, false),
    TB_FLAG_KEY(struct file_job, "migrate", migrate, false),
    TB_FLAG_KEY(struct file_job, "retimed", retimed, false),
    TB_FLAG_KEY(struct file_job, "outside", outside, false),
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
    if (file->grouped && (!called || file->sync_every > 1 || file->appends))
        return !tb_fail(error, "grouped: goes with sync fsync or fdatasync of every write, and "
                               "without appends");
    if (file->appends && (!file->write || file->random))
        return !tb_fail(error, "appends: only sequential writes make a file longer");
    if (file->queue_depth > 1 && (called || file->appends || file->direct == DIRECT_NO))
        return !tb_fail(error, "queue_depth: must be 1 with sync fsync or fdatasync, with appends "
                               "and with direct no");
    if (file->queue_depth > 1 && (job->pace.bytes_per_second || job->pace.pause_ns))
        return !tb_fail(error, "queue_depth: must be 1 with a pace");
    if (file->retimed && !file->write)
        return !tb_fail(error, "retimed: only writes change the file's time");
    if (file->queue_depth > 1 && (file->touch_bytes || file->migrate || file->retimed))
        return !tb_fail(error, "queue_depth: must be 1 with touch_bytes, migrate and retimed");
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
        pthread_mutex_init(&file->parts[i].group.lock, NULL);
        pthread_cond_init(&file->parts[i].group.synced, NULL);
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
        pthread_mutex_destroy(&file->parts[i].group.lock);
        pthread_cond_destroy(&file->parts[i].group.synced);
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
        atomic_store(&file->operations, 0);
    }
    if (thread->place == 0)
        atomic_store(&caller->part->next, 0);
    if (thread->place == 0 && file->appends && ftruncate(caller->part->fd, 0) != 0)
        tb_fail(&thread->error, "cutting the file: %s", strerror(errno));
    caller->fd = open_again(caller->part->fd, file->flags);
    if (caller->fd < 0)
        tb_fail(&thread->error, "opening the file: %s", strerror(errno));
    if (file->outside && thread->index == 0)
        caller->outside = mb_outside_begin(&thread->error);
    if (file->queue_depth == 1)
        return;
    caller->requests = tb_allocate(file->queue_depth, sizeof *caller->requests);
    caller->idle = tb_allocate(file->queue_depth, sizeof *caller->idle);
    for (uint32_t i = 0; i < file->queue_depth; i++)
        caller->idle[caller->idle_count++] = i;
    if (!mb_ring_open(&caller->ring, file->queue_depth))
        tb_fail(&thread->error, "queue_depth: io_uring: %s", strerror(errno));
}

/* ---- kernel ---- */

static void work(struct mb_thread *thread, uint64_t count)
{
    struct file_job *file = thread->job->params;
    if (*thread->error.text)
        return;
    if (thread->recording && file->outside && thread->index == 0)
        mb_outside_note(((struct caller *)thread->own)->outside, &thread->error);
    uint64_t done = file->queue_depth > 1 ? mb_file_work_queued(thread, count)
                                          : mb_file_work_one_by_one(thread, count);
    if (thread->recording && file->outside)
        atomic_fetch_add(&file->operations, done);
    thread->done.operations += done;
    thread->done.read_bytes += file->write ? 0 : done * file->access_bytes;
    thread->done.written_bytes += file->write ? done * file->access_bytes : 0;
}

static void end(struct mb_thread *thread)
{
    static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
    struct file_job *file = thread->job->params;
    struct caller *caller = thread->own;
    mb_file_drain(thread, file);
    if (file->outside && thread->index == 0) {
        uint64_t operations = atomic_load(&file->operations);
        file->outside_ns = mb_outside_end(caller->outside, &thread->error);
        file->outside_ns /= (double)(operations ? operations : 1);
    }
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
    if (file->outside)
        json_object_set_new(facts, "outside_ns", json_real(file->outside_ns));
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

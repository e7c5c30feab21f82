/* The calls of the kernel `file`, one by one. */
#include "file.h"

#include <sys/stat.h>

uint64_t mb_file_next_offset(struct mb_thread *thread, const struct file_job *file,
                            struct part *part)
{
    uint64_t access = file->random ? tb_random_next(&thread->random) >> 11
                                   : atomic_fetch_add_explicit(&part->next, 1, memory_order_relaxed);
    return part->first_byte + access % file->accesses * file->access_bytes;
}

bool mb_file_at_its_place(struct mb_thread *thread, const char *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return offset % MB_STAMPED_BYTES != 0 || word == mb_stamp(offset) ||
           tb_fail(&thread->error, "the file does not have at byte %" PRIu64 " what was written "
                                   "there", offset);
}

bool mb_file_failed(struct mb_thread *thread, const struct file_job *file, uint64_t offset,
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
            return mb_file_failed(thread, file, offset, more ? strerror(errno) : "the file ends");
        moved += (uint64_t)more;
    }
    return true;
}

static bool sync_file(struct mb_thread *thread, const struct file_job *file)
{
    const struct caller *caller = thread->own;
    bool whole = file->sync == FSYNC;
    return (whole ? fsync(caller->fd) : fdatasync(caller->fd)) == 0 ||
           tb_fail(&thread->error, "%s: %s", whole ? "fsync" : "fdatasync", strerror(errno));
}

/* Returns when the last write is durable. `begin`: of the own sync; 0 where another made it. */
static bool sync_together(struct mb_thread *thread, const struct file_job *file, uint64_t *begin)
{
    struct group *group = &((struct caller *)thread->own)->part->group;
    *begin = 0;
    pthread_mutex_lock(&group->lock);
    uint64_t mine = ++group->written;
    while (group->durable < mine && !group->failed) {
        if (group->syncing) {
            pthread_cond_wait(&group->synced, &group->lock);
            continue;
        }
        uint64_t written = group->written;
        group->syncing = true;
        pthread_mutex_unlock(&group->lock);
        *begin = mb_clock_begin();
        bool synced = sync_file(thread, file);
        pthread_mutex_lock(&group->lock);
        group->syncing = false;
        group->durable = synced ? written : group->durable;
        group->failed = !synced;
        pthread_cond_broadcast(&group->synced);
    }
    bool durable = group->durable >= mine;
    pthread_mutex_unlock(&group->lock);
    return durable;
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
    if (!file->cold && !file->touch_bytes && !file->migrate && !file->retimed)
        return;
    uint64_t from = tb_monotonic_ns(), cpu_from = tb_thread_cpu_ns();
    if (file->migrate && CPU_COUNT(&caller->cpus) > 1)
        go_to_next_processor(caller);
    uint64_t evicted = !file->cold ? 0 : file->random ? file->access_bytes
                     : offset == caller->part->first_byte ? file->accesses * file->access_bytes : 0;
    if (evicted)
        posix_fadvise(caller->fd, (off_t)offset, (off_t)evicted, POSIX_FADV_DONTNEED);
    const struct timespec long_ago[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    if (file->retimed && futimens(caller->fd, long_ago) != 0)
        tb_fail(&thread->error, "setting the file's time: %s", strerror(errno));
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
    uint64_t syncing = due ? written : 0;
    if (due && !(file->grouped ? sync_together(thread, file, &syncing) : sync_file(thread, file)))
        return false;
    uint64_t to = due || !called ? mb_clock_end() : written;
    if (due)
        caller->until_sync = file->sync_every;
    if (thread->recording) {
        tb_hdr_record(&thread->latency, mb_ns(to - from), 1);
        if (called)
            tb_hdr_record(&caller->calls, mb_ns(written - from), 1);
        if (syncing)
            tb_hdr_record(&caller->syncs, mb_ns(to - syncing), 1);
    }
    return file->write || mb_file_at_its_place(thread, caller->buffers, offset);
}

/* The file is as large as its part: it starts again after all writers have finished. */
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

uint64_t mb_file_work_one_by_one(struct mb_thread *thread, uint64_t count)
{
    struct file_job *file = thread->job->params;
    struct part *part = ((struct caller *)thread->own)->part;
    for (uint64_t i = 0; i < count; i++) {
        bool did = file->appends
                       ? append(thread, file)
                       : operate(thread, file, mb_file_next_offset(thread, file, part));
        if (!did)
            return i;
    }
    return count;
}

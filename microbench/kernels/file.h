/* What the files of the kernel `file` share: a job, its parts, and the threads that call. */
#pragma once

#include "io_ring.h"
#include "kernel.h"
#include "target.h"
#include "timer_overhead.h"

enum sync { NO_SYNC, FSYNC, FDATASYNC, DSYNC };
enum direct { DIRECT_AUTO, DIRECT_YES, DIRECT_NO };

/*
 * Group commit: of the threads that wait for a sync, one makes it for all whose writes were done
 * when it began; the others sleep.
 */
struct group {
    pthread_mutex_t lock;
    pthread_cond_t synced;
    uint64_t written, durable; /* writes that are done, and those of them that are synced */
    bool syncing, failed;
};

/* What the threads of a partition share. */
struct part {
    int fd; /* of the file; those of its threads are others */
    uint64_t first_byte;
    _Atomic uint64_t next;   /* access in turn */
    pthread_rwlock_t growth; /* of a file that grows: who cuts it writes, who appends reads */
    struct group group;
};

struct file_job {
    bool write, random, appends, grouped;
    enum sync sync;
    enum direct direct;
    bool cold, migrate, retimed, outside;
    uint64_t access_bytes, sync_every, touch_bytes;
    uint32_t queue_depth;

    int flags; /* of its threads' descriptors */
    uint64_t accesses; /* of a part */
    struct part *parts;
    struct tb_hdr calls, syncs; /* of all threads, from `begin` to `report` */
    _Atomic uint64_t truncating_ns, laps;
    _Atomic uint64_t operations; /* of all threads, with `outside` */
    double outside_ns; /* of an operation */
    struct mb_timer_overhead overhead;
};

struct caller {
    int fd;
    struct part *part;
    char *buffers; /* queue_depth of them */
    char *touched; /* touch_bytes of memory */
    cpu_set_t cpus; /* it may run on */
    int cpu;
    struct mb_outside *outside;
    uint64_t until_sync;
    struct tb_hdr calls, syncs; /* where an operation is both */
    struct mb_ring ring;
    struct request {
        uint64_t offset, begin;
    } *requests;
    uint32_t *idle, idle_count; /* requests that are not under way */
};

struct mb_outside *mb_outside_begin(struct tb_error *error);
void mb_outside_note(struct mb_outside *outside, struct tb_error *error);
double mb_outside_end(struct mb_outside *outside, struct tb_error *error);

uint64_t mb_file_next_offset(struct mb_thread *thread, const struct file_job *file,
                             struct part *part);
/* A read's first word, if it is that of a 4 KiB block, must tell the block. */
bool mb_file_at_its_place(struct mb_thread *thread, const char *bytes, uint64_t offset);
bool mb_file_failed(struct mb_thread *thread, const struct file_job *file, uint64_t offset,
                    const char *reason);

/* Performs `count` operations; returns the number done before one failed. */
uint64_t mb_file_work_one_by_one(struct mb_thread *thread, uint64_t count);
uint64_t mb_file_work_queued(struct mb_thread *thread, uint64_t count);
/* Buffers are written to until all requests are done. */
void mb_file_drain(struct mb_thread *thread, const struct file_job *file);

/* The calls of the kernel `file`, several under way at the same time, by io_uring. */
#include "file.h"

static void queue(struct mb_thread *thread, const struct file_job *file, uint32_t index)
{
    struct caller *caller = thread->own;
    struct request *request = &caller->requests[index];
    char *buffer = caller->buffers + index * file->access_bytes;
    request->offset = mb_file_next_offset(thread, file, caller->part);
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
        return mb_file_failed(thread, file, request->offset, strerror(-result));
    if ((uint64_t)result != file->access_bytes)
        return mb_file_failed(thread, file, request->offset, "only a part was done");
    if (thread->recording)
        tb_hdr_record(&thread->latency, mb_ns(taken), 1);
    return file->write ||
           mb_file_at_its_place(thread, caller->buffers + index * file->access_bytes,
                                request->offset);
}

/*
 * As many are under way from one call of this to the next, so that the device is never idle. Each
 * is handed over by itself as soon as there is room, as fio does.
 */
uint64_t mb_file_work_queued(struct mb_thread *thread, uint64_t count)
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

void mb_file_drain(struct mb_thread *thread, const struct file_job *file)
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

/*
 * Toy kernel: increments one byte of each line, in order.
 *
 *   {"name": "increment", "kind": "increment", "target": "t0", "threads": 1, "step_bytes": 64}
 */
#include "kernel.h"

struct increment {
    uint64_t step_bytes;
};

static const struct tb_param params[] = {
    MB_BYTES_KEY(struct increment, "step_bytes", step_bytes, MB_LINE),
    {0},
};

static void begin(struct mb_thread *thread)
{
    thread->own = tb_allocate(1, sizeof(uint64_t)); /* offset of the next line */
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct increment *increment = thread->job->params;
    uint64_t *offset = thread->own;
    for (uint64_t i = 0; i < operations; i++) {
        volatile char *line = thread->base + *offset;
        ++*line;
        *offset += increment->step_bytes;
        if (*offset >= thread->range_bytes)
            *offset = 0;
    }
    thread->done.operations += operations;
    thread->done.read_bytes += operations * MB_LINE;
    thread->done.written_bytes += operations * MB_LINE;
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    *persist = (struct mb_persist){.flush = MB_NO_FLUSH, .fence = MB_NO_FENCE};
    return true;
}

const struct mb_kernel mb_increment = {
    .name = "increment",
    .params = params,
    .params_bytes = sizeof(struct increment),
    .begin = begin,
    .work = work,
    .persists = persists,
};

/*
 * What operations of the kernel `file` use of the processors outside of their own thread: the device's
 * interrupts, and the kernel's own threads.
 *
 * Nothing counts interrupts' time as such: Linux books it on whoever is interrupted. So threads of the
 * lowest priority fill the processors with turns that always take as long. What is missing of their
 * turns while the operations run, others have used.
 */
#include "file.h"

enum { TURN_STEPS = 32 };
#define ALONE_NS (200 * TB_MILLISECOND)

struct filler {
    pthread_t id;
    int cpu;
    bool started;
    atomic_bool *ended;
    char apart[MB_LINE]; /* from the line of another one's turns */
    _Atomic uint64_t turns;
};

struct mb_outside {
    struct filler *fillers;
    uint32_t count;
    atomic_bool ended;
    double turns_per_ns; /* of all processors, without operations */
    uint64_t begin_ns, begin_turns, begin_cpu_ns;
};

static void *fill(void *of)
{
    struct filler *filler = of;
    const struct sched_param lowest = {.sched_priority = 0};
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(filler->cpu, &cpu);
    sched_setaffinity(0, sizeof cpu, &cpu);
    sched_setscheduler(0, SCHED_IDLE, &lowest);
    while (!atomic_load_explicit(filler->ended, memory_order_relaxed)) {
        for (volatile int step = 0; step < TURN_STEPS; step++)
            ;
        uint64_t turns = atomic_load_explicit(&filler->turns, memory_order_relaxed);
        atomic_store_explicit(&filler->turns, turns + 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t turns_of(const struct mb_outside *outside)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < outside->count; i++)
        sum += atomic_load_explicit(&outside->fillers[i].turns, memory_order_relaxed);
    return sum;
}

/* Whatever else runs on the host takes turns, so the higher one of two rates is nearer. */
static void measure_alone(struct mb_outside *outside)
{
    const struct timespec alone = tb_timespec(ALONE_NS);
    uint64_t from = tb_monotonic_ns(), before = turns_of(outside);
    nanosleep(&alone, NULL);
    uint64_t turns = turns_of(outside) - before;
    double rate = (double)turns / (double)(tb_monotonic_ns() - from);
    outside->turns_per_ns = rate > outside->turns_per_ns ? rate : outside->turns_per_ns;
}

/* Fills the processors that this thread may run on, and counts the turns without operations. */
struct mb_outside *mb_outside_begin(const cpu_set_t *cpus, struct tb_error *error)
{
    struct mb_outside *outside = tb_allocate(1, sizeof *outside);
    outside->count = (uint32_t)CPU_COUNT(cpus);
    outside->fillers = tb_allocate(outside->count, sizeof *outside->fillers);
    for (uint32_t i = 0, cpu = 0; i < outside->count; cpu++) {
        if (!CPU_ISSET(cpu, cpus))
            continue;
        struct filler *filler = &outside->fillers[i++];
        filler->cpu = (int)cpu;
        filler->ended = &outside->ended;
        int failed = pthread_create(&filler->id, NULL, fill, filler);
        filler->started = !failed;
        if (failed)
            tb_fail(error, "outside: a thread: %s", strerror(failed));
    }
    const struct timespec alone = tb_timespec(ALONE_NS);
    nanosleep(&alone, NULL); /* all are at work then */
    measure_alone(outside);
    if (outside->turns_per_ns <= 0)
        tb_fail(error, "outside: other work leaves the processors no time");
    return outside;
}

void mb_outside_note(struct mb_outside *outside)
{
    if (outside->begin_ns)
        return;
    outside->begin_cpu_ns = tb_thread_cpu_ns();
    outside->begin_turns = turns_of(outside);
    outside->begin_ns = tb_monotonic_ns();
}

/* Ends the filling; the processors' time since it was noted that no thread of ours has used. */
double mb_outside_end(struct mb_outside *outside)
{
    double wall_ns = (double)(tb_monotonic_ns() - outside->begin_ns);
    double turns = (double)(turns_of(outside) - outside->begin_turns);
    double own_ns = (double)(tb_thread_cpu_ns() - outside->begin_cpu_ns);
    measure_alone(outside);
    atomic_store(&outside->ended, true);
    for (uint32_t i = 0; i < outside->count; i++)
        if (outside->fillers[i].started)
            pthread_join(outside->fillers[i].id, NULL);
    double missing_ns = outside->count * (wall_ns - turns / outside->turns_per_ns);
    free(outside->fillers);
    free(outside);
    return missing_ns - own_ns;
}

/*
 * What operations of the kernel `file` use of the processors outside of their own threads: the device's
 * interrupts, and the kernel's own threads.
 *
 * Nothing counts interrupts' time as such: Linux books it on whoever is interrupted. But it knows when
 * processors are idle. The rest is the threads', outside of them, and what the host uses without them.
 */
#include "file.h"

#define ALONE_NS (1000 * TB_MILLISECOND)

struct mb_outside {
    double processors_alone; /* that are busy without operations */
    uint64_t begin_ns, begin_cpu_ns;
    double begin_busy_ns;
};

/* Of all processors, since some time; Linux states it in hundredths of a second. */
static double busy_ns(struct tb_error *error)
{
    unsigned long long idle = 0, waiting = 0;
    FILE *stat = fopen("/proc/stat", "re");
    if (!stat || fscanf(stat, "cpu %*u %*u %*u %llu %llu", &idle, &waiting) != 2)
        tb_fail(error, "outside: /proc/stat: %s", strerror(errno));
    if (stat)
        fclose(stat);
    double all_ns = (double)sysconf(_SC_NPROCESSORS_ONLN) * (double)tb_monotonic_ns();
    return all_ns - (double)(idle + waiting) * 1e9 / (double)sysconf(_SC_CLK_TCK);
}

/* Learns what the host uses without operations. */
struct mb_outside *mb_outside_begin(struct tb_error *error)
{
    struct mb_outside *outside = tb_allocate(1, sizeof *outside);
    const struct timespec alone = tb_timespec(ALONE_NS);
    uint64_t from = tb_monotonic_ns();
    double before = busy_ns(error);
    nanosleep(&alone, NULL);
    outside->processors_alone = (busy_ns(error) - before) / (double)(tb_monotonic_ns() - from);
    return outside;
}

void mb_outside_note(struct mb_outside *outside, struct tb_error *error)
{
    if (outside->begin_ns)
        return;
    outside->begin_cpu_ns = tb_process_cpu_ns();
    outside->begin_busy_ns = busy_ns(error);
    outside->begin_ns = tb_monotonic_ns();
}

/* The processors' time since it was noted that neither our threads nor the host without them used. */
double mb_outside_end(struct mb_outside *outside, struct tb_error *error)
{
    double wall_ns = (double)(tb_monotonic_ns() - outside->begin_ns);
    double busy = busy_ns(error) - outside->begin_busy_ns;
    double own_ns = (double)(tb_process_cpu_ns() - outside->begin_cpu_ns);
    double alone_ns = outside->processors_alone * wall_ns;
    free(outside);
    return busy - own_ns - alone_ns;
}

/*
 * What this processor can: instruction sets, flushes, an invariant clock and its rate.
 *
 * The rate is measured against CLOCK_MONOTONIC, from mb_cpu_find to mb_cpu_settle: the time in
 * between is not waited for where targets are made ready meanwhile. A counter that the processor
 * does not call invariant (hypervisors may hide that) is held against the clock all along.
 * The core's own frequency is what a chain of dependent additions shows, one a cycle; it is
 * where the ceiling of plausible figures comes from.
 */
#include "kernel.h"

#include <math.h>

struct mb_cpu mb_cpu;

#define CALIBRATION_NS (50 * TB_MILLISECOND)
#define MOST_DRIFT 0.01 /* of the counter's rate, from one look to the next */

static void find_caches(void)
{
    for (int index = 0; index < 8; index++) {
        char path[80];
        unsigned long long kib;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (tb_scan_file(path, "%lluK", &kib) && kib * MB_KIB > mb_cpu.llc_bytes)
            mb_cpu.llc_bytes = kib * MB_KIB;
    }
}

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_bit(uint32_t word, int bit)
{
    return (word >> bit & 1) != 0;
}

static void find_abilities(void)
{
    uint32_t a, b = 0, c = 0, d = 0;
    __builtin_cpu_init();
    mb_cpu.isa[MB_SSE2] = __builtin_cpu_supports("sse4.1"); /* movntdqa of its ntload */
    mb_cpu.isa[MB_AVX2] = __builtin_cpu_supports("avx2");
    mb_cpu.isa[MB_AVX512] = __builtin_cpu_supports("avx512f");
    mb_cpu.flush[MB_NO_FLUSH] = true;
    if (__get_cpuid(1, &a, &b, &c, &d))
        mb_cpu.flush[MB_CLFLUSH] = has_bit(d, 19);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        mb_cpu.flush[MB_CLFLUSHOPT] = has_bit(b, 23);
        mb_cpu.flush[MB_CLWB] = has_bit(b, 24);
    }
    if (__get_cpuid(0x80000007, &a, &b, &c, &d))
        mb_cpu.invariant_clock = has_bit(d, 8);
}

#define ADD "add %1, %0\n\t"

#else
#include <sys/auxv.h>

static void find_abilities(void)
{
    mb_cpu.isa[MB_NEON] = true;
    for (int i = 0; i < MB_FLUSHES; i++)
        mb_cpu.flush[i] = true;
    mb_cpu.flush[MB_CLWB] = (getauxval(AT_HWCAP) & HWCAP_DCPOP) != 0;
    mb_cpu.invariant_clock = true; /* the architecture's counter */
}

#define ADD "add %0, %0, %1\n\t"

#endif

/* Each to the result of the one before; a register's value: newer cores add constants for nothing. */
static void add_chain(uint64_t rounds)
{
    uint64_t sum = 0, one = 1;
    for (uint64_t i = 0; i < rounds; i++)
        __asm__ volatile(ADD ADD ADD ADD ADD ADD ADD ADD : "+r"(sum) : "r"(one));
}

/* A pair of both clocks, as close together as some tries make it. */
static void read_both(uint64_t *cycles, uint64_t *ns)
{
    uint64_t closest = UINT64_MAX;
    *cycles = *ns = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t before = mb_clock_begin(), now = tb_monotonic_ns(), after = mb_clock_end();
        if (after - before >= closest)
            continue;
        closest = after - before;
        *cycles = before + closest / 2;
        *ns = now;
    }
}

/* The largest number of cycles that all distances of successive stamps are multiples of. */
static uint64_t step_of_clock(void)
{
    enum { STAMPS = 4096 };
    uint64_t step = 0, before = mb_clock_read();
    for (int i = 0; i < STAMPS; i++) {
        uint64_t now = mb_clock_read(), rest = now - before;
        before = now;
        while (rest) {
            uint64_t over = step % rest;
            step = rest;
            rest = over;
        }
    }
    return step ? step : 1;
}

static uint64_t first_cycles, first_ns, last_cycles, last_ns;

void mb_cpu_settle(void)
{
    uint64_t cycles, ns;
    while (tb_monotonic_ns() - first_ns < CALIBRATION_NS)
        ;
    read_both(&cycles, &ns);
    mb_cpu.clock_hz = (double)(cycles - first_cycles) * 1e9 / (double)(ns - first_ns);
    last_cycles = cycles;
    last_ns = ns;
}

bool mb_cpu_clock_kept(struct tb_error *error)
{
    uint64_t cycles, ns;
    if (mb_cpu.invariant_clock)
        return true;
    read_both(&cycles, &ns);
    if (ns - last_ns < CALIBRATION_NS) /* too short to compare: next time */
        return true;
    double hz = (double)(int64_t)(cycles - last_cycles) * 1e9 / (double)(ns - last_ns);
    last_cycles = cycles;
    last_ns = ns;
    if (fabs(hz / mb_cpu.clock_hz - 1) <= MOST_DRIFT)
        return true;
    return tb_fail(error, "the time stamp counter ran at %.3f GHz, and at %.3f GHz when it was "
                          "measured: it is not invariant on this processor (%s), so it cannot "
                          "measure durations of single operations", hz / 1e9,
                   mb_cpu.clock_hz / 1e9, mb_cpu.model);
}

void mb_cpu_measure_core(void)
{
    enum { ROUNDS = 20000, TRIES = 5 };
    double best = 0;
    for (int i = 0; i < TRIES; i++) { /* the fastest: the others were interrupted */
        uint64_t begin = tb_monotonic_ns();
        add_chain(ROUNDS);
        double hz = 8.0 * ROUNDS * 1e9 / (double)(tb_monotonic_ns() - begin);
        best = hz > best ? hz : best;
    }
    mb_cpu.core_hz = best;
}

void mb_cpu_find(void)
{
    mb_cpu = (struct mb_cpu){.clock_hz = 0};
    if (!tb_scan_file("/proc/cpuinfo", "model name : %127[^\n]", mb_cpu.model))
        strcpy(mb_cpu.model, "unknown model");
    find_caches();
    find_abilities();
    mb_cpu.clock_step = step_of_clock();
    read_both(&first_cycles, &first_ns);
    mb_cpu_measure_core();
}

/* Addresses, mixes, pace, plausibility: what figures stand on. */
#include "check.h"
#include "run.h"

#include <math.h>

enum { RANGE = 1 << 20 };

/* The first that runs: the others stand on it. */
TEST(the_processor_is_known)
{
    mb_cpu_find();
    CHECK(mb_cpu.clock_step > 0);
}

static struct mb_cursor cursor_of(enum mb_order order, uint64_t access, uint64_t range,
                                  uint32_t sharers, uint32_t place, uint64_t seed)
{
    struct mb_pattern pattern = {.order = order,
                                 .stride_bytes = 4096,
                                 .hotspot_bytes = 8192,
                                 .chunk_bytes = 65536,
                                 .zipf_exponent = 0.9};
    static const struct mb_job job = {.threads = 1};
    struct mb_thread thread = {.job = &job, .sharers = sharers, .place = place};
    struct mb_cursor cursor;
    tb_random_seed(&thread.random, seed, place);
    mb_cursor_init(&cursor, &thread, &pattern, access, NULL, range, 0);
    return cursor;
}

/* Counts how often each slot of the range is accessed; false where an access leaves it. */
static bool count(struct mb_cursor *cursor, uint64_t accesses, uint64_t range, uint32_t *times)
{
    for (uint64_t done = 0; done < accesses;) {
        struct mb_span span = mb_cursor_next(cursor, accesses - done);
        if (span.count == 0 || span.count > accesses - done)
            return false;
        for (uint64_t i = 0; i < span.count; i++) {
            uint64_t at = (uint64_t)(uintptr_t)mb_span_at(&span, i);
            if (at % MB_LINE != 0 || at + cursor->access_bytes > range)
                return false;
            times[at / cursor->access_bytes]++;
        }
        done += span.count;
    }
    return true;
}

TEST(test_one_lap_of_a_sequence_touches_all_once)
{
    static const enum mb_order orders[] = {MB_SEQUENTIAL, MB_SEQUENTIAL_DESC};
    static const uint64_t accesses[] = {64, 256, 4096, 65536, 192};
    for (size_t o = 0; o < 2; o++)
        for (size_t a = 0; a < sizeof accesses / sizeof *accesses; a++)
            for (uint32_t sharers = 1; sharers <= 4; sharers *= 2) {
                uint64_t slots = RANGE / accesses[a];
                uint32_t *times = tb_allocate(slots, sizeof *times);
                uint64_t seen = 0;
                for (uint32_t place = 0; place < sharers; place++) {
                    struct mb_cursor cursor =
                        cursor_of(orders[o], accesses[a], RANGE, sharers, place, 1);
                    CHECK(count(&cursor, slots / sharers, RANGE, times));
                    mb_cursor_free(&cursor);
                }
                for (uint64_t i = 0; i < slots; i++)
                    seen += times[i] == 1;
                /* 192 bytes do not divide the chunks: the last one is shorter. */
                CHECK_CASE(accesses[a] == 192 ? seen > slots * 9 / 10 : seen == slots, a);
                free(times);
            }
}

/* Over several turns of its ring, a thread stays on its DIMMs and accesses all of them. */
TEST(test_each_thread_keeps_to_its_dimms)
{
    enum { BLOCK = 4096, WAYS = 6, THREADS = 8, ACCESSES = 50000 };
    static const struct mb_job job = {.threads = THREADS};
    uint64_t range = 1000 * WAYS * BLOCK + 12345 * MB_LINE;
    for (int64_t dimms = 1; dimms <= WAYS; dimms++)
        for (uint32_t index = 0; index < THREADS; index++) {
            struct mb_pattern pattern = {
                .order = MB_OF_DIMMS, .stripe_bytes = WAYS * BLOCK, .dimms = dimms};
            struct mb_thread thread = {
                .job = &job, .sharers = THREADS, .place = index, .index = index};
            struct mb_cursor cursor;
            uint64_t on[WAYS] = {0};
            tb_random_seed(&thread.random, 7, index);
            mb_cursor_init(&cursor, &thread, &pattern, 256, NULL, range, 0);
            for (uint64_t done = 0; done < ACCESSES;) {
                struct mb_span span = mb_cursor_next(&cursor, ACCESSES - done);
                for (uint64_t i = 0; i < span.count; i++) {
                    uint64_t at = (uint64_t)(uintptr_t)mb_span_at(&span, i);
                    CHECK(at % 256 == 0 && at + 256 <= range);
                    on[at / BLOCK % WAYS]++;
                }
                done += span.count;
            }
            for (uint32_t k = 0; k < WAYS; k++)
                CHECK_CASE((k < dimms) == (on[(index + k) % WAYS] > 0), dimms);
            mb_cursor_free(&cursor);
        }
}

TEST(test_down_is_the_way_up_backwards)
{
    struct mb_cursor up = cursor_of(MB_SEQUENTIAL, 256, RANGE, 1, 0, 1);
    struct mb_cursor down = cursor_of(MB_SEQUENTIAL_DESC, 256, RANGE, 1, 0, 1);
    struct mb_span rising = mb_cursor_next(&up, 3), falling = mb_cursor_next(&down, 3);
    CHECK(mb_span_at(&rising, 0) == (char *)0 && mb_span_at(&rising, 2) == (char *)512);
    CHECK((uintptr_t)mb_span_at(&falling, 0) == RANGE - 256);
    CHECK((uintptr_t)mb_span_at(&falling, 2) == RANGE - 768);
}

TEST(test_random_addresses_are_uniform_and_from_the_seed)
{
    enum { SLOTS = RANGE / 256, DRAWS = 400 * SLOTS };
    static uint32_t times[SLOTS], again[SLOTS], other[SLOTS];
    uint32_t *const into[] = {times, again, other};
    for (size_t i = 0; i < 3; i++) {
        struct mb_cursor cursor = cursor_of(MB_RANDOM, 256, RANGE, 1, 0, i < 2 ? 7 : 8);
        CHECK(count(&cursor, DRAWS, RANGE, into[i]));
        mb_cursor_free(&cursor);
    }
    CHECK(memcmp(times, again, sizeof times) == 0);
    CHECK(memcmp(times, other, sizeof times) != 0);
    /* 100 rounds of one turned ring: each slot is hit 400 times in the mean. */
    double off = 0;
    for (size_t i = 0; i < SLOTS; i++)
        off += ((double)times[i] - 400) * ((double)times[i] - 400);
    CHECK(sqrt(off / SLOTS) < 100); /* Poisson alone would give 20, a ring not turned 200 */
}

/* A ring that is not turned would come back to 4096 lines, which a cache holds. */
TEST(test_rounds_of_the_ring_touch_other_lines)
{
    enum { WIDE = 1 << 28, SLOTS = WIDE / 64, ROUND = 1 << 14 };
    struct mb_cursor cursor = cursor_of(MB_RANDOM, 64, WIDE, 1, 0, 3);
    uint32_t *times = tb_allocate(SLOTS, sizeof *times);
    uint64_t touched = 0;
    CHECK(count(&cursor, 20 * ROUND, WIDE, times));
    for (size_t i = 0; i < SLOTS; i++)
        touched += times[i] > 0;
    CHECK(touched > 19 * ROUND);
    free(times);
    mb_cursor_free(&cursor);
}

TEST(test_a_hot_spot_stays_in_its_bytes)
{
    static uint32_t times[RANGE / 64];
    struct mb_cursor cursor = cursor_of(MB_HOTSPOT, 64, RANGE, 1, 0, 3);
    CHECK(count(&cursor, 100000, RANGE, times));
    for (size_t i = 0; i < RANGE / 64; i++)
        CHECK_CASE((times[i] > 0) == (i < 8192 / 64), i);
    mb_cursor_free(&cursor);
}

/* A second target or what writes leave of a range may be smaller: the spot is no larger then. */
TEST(test_a_hot_spot_does_not_leave_a_smaller_range)
{
    enum { SMALL = 4096 };
    static uint32_t times[SMALL / 64];
    struct mb_cursor cursor = cursor_of(MB_HOTSPOT, 64, SMALL, 1, 0, 3);
    CHECK(count(&cursor, 3 << 14, SMALL, times));
    for (size_t i = 0; i < SMALL / 64; i++)
        CHECK_CASE(times[i] > 0, i);
    mb_cursor_free(&cursor);
}

TEST(test_laps_of_strides_are_shifted)
{
    static uint32_t times[RANGE / 64];
    struct mb_cursor cursor = cursor_of(MB_STRIDED, 64, RANGE, 1, 0, 3);
    struct mb_span first = mb_cursor_next(&cursor, 2);
    CHECK(first.count == 2 && mb_span_at(&first, 1) - mb_span_at(&first, 0) == 4096);
    CHECK(count(&cursor, RANGE / 64 - 2, RANGE, times));
    size_t twice = 0;
    for (size_t i = 0; i < RANGE / 64; i++)
        twice += times[i] > 1;
    CHECK(twice == 0); /* 64 laps of 256 accesses: every line once */
}

TEST(test_what_cannot_be_is_refused)
{
    struct tb_error error = {""};
    struct mb_job job = {.name = "reader", .kernel = mb_kernel_named("throughput")};
    struct mb_kernel any = {.name = "any"};
    struct mb_counts peer = {.read_bytes = UINT64_C(2097852) << 30}; /* in one second */
    struct mb_counts ours = {.read_bytes = UINT64_C(30000000000)};
    struct mb_counts written = {.written_bytes = UINT64_C(3000000000000)};
    job.kernel = &any; /* the widest ceiling there is */
    CHECK(!mb_plausible(&job, &peer, TB_SECOND, 3.2e9, &error));
    CHECK(strstr(error.text, "job reader: implausible: a thread loaded") != NULL);
    CHECK(mb_plausible(&job, &ours, TB_SECOND, 3.2e9, &error));
    CHECK(!mb_plausible(&job, &written, TB_SECOND, 3.2e9, &error));
    CHECK(strstr(error.text, "stored") != NULL);
}

TEST(test_durable_only_where_all_of_it_is)
{
    const struct mb_persist none = {.flush = MB_NO_FLUSH, .fence = MB_NO_FENCE};
    const struct mb_persist unfenced = {.flush = MB_CLWB, .fence = MB_NO_FENCE};
    const struct mb_persist whole = {.flush = MB_CLWB, .fence = MB_SFENCE};
    const struct mb_persist streamed = {.non_temporal = true, .fence = MB_SFENCE};
    struct mb_target dram = {.kind = MB_DRAM, .domain = MB_ADR};
    struct mb_target file = {.kind = MB_FILE, .domain = MB_ADR};
    struct mb_target dax = {.kind = MB_FILE, .domain = MB_ADR, .map_sync = true};
    struct mb_target unknown = {.kind = MB_DEVDAX, .domain = MB_VOLATILE};
    struct mb_target caches = {.kind = MB_DEVDAX, .domain = MB_EADR};
    const char *why;
    CHECK_TEXT(mb_durable(&dram, &whole, &why), "no");
    CHECK_TEXT(mb_durable(&file, &whole, &why), "no");
    CHECK_TEXT(mb_durable(&dax, &whole, &why), "yes");
    CHECK_TEXT(mb_durable(&dax, &streamed, &why), "yes");
    CHECK_TEXT(mb_durable(&dax, &unfenced, &why), "no");
    CHECK_TEXT(mb_durable(&dax, &none, &why), "no");
    CHECK_TEXT(mb_durable(&unknown, &whole, &why), "no");
    CHECK_TEXT(mb_durable(&caches, &none, &why), "eADR");
    CHECK_TEXT(mb_durable(&caches, &whole, &why), "yes");
}

/* A job of a spec with a DAX file as its target, and DRAM next to it. */
static const char *durable_of(const char *job, const char **why)
{
    struct tb_error error = {""};
    struct mb_spec spec;
    struct mb_persist persist;
    const char *durable = "nothing";
    json_t *document = json_pack(
        "{s:i, s:i, s:{s:{s:s, s:s, s:i}, s:{s:s, s:i}}, s:[{s:s, s:[o]}]}", "schema", 2, "seed",
        1, "targets", "dax", "kind", "file", "path", "/tmp", "size_bytes", RANGE, "dram", "kind",
        "dram", "size_bytes", RANGE, "measurements", "name", "m", "jobs",
        json_loads(job, 0, NULL));
    CHECK(mb_spec_read(&spec, document, &error));
    CHECK_TEXT(error.text, "");
    struct mb_target *dax = mb_spec_target(&spec, "dax");
    dax->map_sync = true;
    dax->domain = MB_ADR;
    const struct mb_job *only = &spec.measurements[0].jobs[0];
    if (only->kernel->persists(only, &persist))
        durable = mb_durable_job(only, &persist, why);
    mb_spec_free(&spec);
    return durable;
}

#define MIXED(read_share, share)                                                                \
    "{\"name\": \"j\", \"kind\": \"throughput\", \"target\": \"dax\", \"operations\": 1, "      \
    "\"operation\": \"mixed\", \"store\": \"ntstore\", \"fence\": \"sfence\", "                 \
    "\"access_bytes\": 64, \"pattern\": \"random\", \"read_share\": " read_share                \
    ", \"second\": {\"target\": \"dram\", \"share\": " share "}}"
#define CHAIN(read, write)                                                                      \
    "{\"name\": \"j\", \"kind\": \"chain\", \"target\": \"dax\", \"operations\": 1, "           \
    "\"dependent\": true, \"second\": {\"target\": \"dram\", \"share\": 0}, \"steps\": ["       \
    "{\"operation\": \"read\", \"target\": \"" read "\", \"bytes\": 64}, "                      \
    "{\"operation\": \"read\", \"target\": \"" write "\", \"bytes\": 64}, "                     \
    "{\"operation\": \"write\", \"target\": \"" write "\", \"bytes\": 64, "                     \
    "\"persist\": \"nocache\"}]}"

TEST(test_what_goes_to_memory_beside_the_tier_is_not_durable)
{
    const char *why = "";
    CHECK_TEXT(durable_of(MIXED("0.5", "0"), &why), "yes");
    CHECK_TEXT(durable_of(MIXED("0.5", "0.5"), &why), "no");
    CHECK_TEXT(why, "DRAM forgets");
    CHECK_TEXT(durable_of(MIXED("0", "1"), &why), "no");
    CHECK_TEXT(durable_of(MIXED("1", "0.5"), &why), "nothing");
    CHECK_TEXT(durable_of(CHAIN("second", "first"), &why), "yes");
    CHECK_TEXT(durable_of(CHAIN("first", "second"), &why), "no");
    CHECK_TEXT(why, "DRAM forgets");
}

TEST(test_all_that_a_job_writes_decides_or_what_the_second_target_gets_alone)
{
    struct mb_target dram = {.kind = MB_DRAM};
    struct mb_target dax = {.kind = MB_FILE, .domain = MB_ADR, .map_sync = true};
    struct mb_target caches = {.kind = MB_DEVDAX, .domain = MB_EADR};
    struct mb_persist persist = {.flush = MB_CLWB, .fence = MB_SFENCE, .second = &dax};
    struct mb_job job = {.target = &dram};
    const char *why;
    CHECK_TEXT(mb_durable_job(&job, &persist, &why), "no");
    persist.second_alone = true;
    CHECK_TEXT(mb_durable_job(&job, &persist, &why), "yes");
    persist = (struct mb_persist){.second = &dax};
    job.target = &caches;
    CHECK_TEXT(mb_durable_job(&job, &persist, &why), "no");
}

TEST(test_the_clock_and_the_core_are_found)
{
    mb_cpu_find();
    mb_cpu_settle();
    CHECK(mb_cpu.clock_hz > 1e6 && mb_cpu.clock_hz < 1e10);
    CHECK(mb_cpu.core_hz > 1e8 && mb_cpu.core_hz < 1e10);
    /* Whatever interrupts it lies within the outer two or without the inner two. */
    uint64_t outer = tb_monotonic_ns(), cycles = mb_clock_begin(), inner = tb_monotonic_ns();
    uint64_t end = inner;
    while (end - inner < 20 * TB_MILLISECOND)
        end = tb_monotonic_ns();
    double measured = (double)mb_ns(mb_clock_end() - cycles);
    CHECK(measured > (double)(end - inner) * 0.99);
    CHECK(measured < (double)(tb_monotonic_ns() - outer) * 1.01);
}

static void wait_ns(uint64_t ns)
{
    uint64_t begin = tb_monotonic_ns();
    while (tb_monotonic_ns() - begin < ns)
        ;
}

TEST(test_a_counter_that_strays_from_the_clock_is_refused)
{
    struct tb_error error = {""};
    mb_cpu_find();
    mb_cpu_settle();
    mb_cpu.invariant_clock = false; /* as under a hypervisor that hides it */
    wait_ns(60 * TB_MILLISECOND);
    CHECK(mb_cpu_clock_kept(&error));
    double settled = mb_cpu.clock_hz;
    mb_cpu.clock_hz = settled * 1.05;
    uint64_t looked = tb_monotonic_ns(); /* or a little before */
    bool kept = mb_cpu_clock_kept(&error);
    CHECK(kept || tb_monotonic_ns() - looked > 40 * TB_MILLISECOND); /* too soon to decide */
    wait_ns(60 * TB_MILLISECOND);
    CHECK(!mb_cpu_clock_kept(&error));
    CHECK(error.text[0] != 0);
    mb_cpu.invariant_clock = true; /* the processor's word is taken */
    wait_ns(60 * TB_MILLISECOND);
    CHECK(mb_cpu_clock_kept(&error));
    mb_cpu_find();
    mb_cpu_settle();
}

int main(void)
{
    return checks_failed();
}

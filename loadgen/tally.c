/* Counting, without a lock: every event loop has its own tallies. */
#include "tally.h"

struct lg_tally *lg_tallies_new(size_t operations, size_t intervals)
{
    struct lg_tally *tallies = tb_allocate(operations, sizeof *tallies);
    for (size_t i = 0; i < operations; i++) {
        tb_hdr_init(&tallies[i].latency);
        tallies[i].interval = SIZE_MAX; /* none yet */
        tallies[i].latencies.intervals = intervals;
    }
    return tallies;
}

void lg_tallies_free(struct lg_tally *tallies, size_t operations)
{
    for (size_t i = 0; i < operations; i++) {
        tb_hdr_free(&tallies[i].latency);
        free(tallies[i].series);
        free(tallies[i].latencies.packed.bytes);
        free(tallies[i].latencies.begins);
    }
    free(tallies);
}

static void reach(struct lg_tally *tally, size_t intervals)
{
    if (intervals <= tally->intervals)
        return;
    size_t room = tally->intervals ? tally->intervals : 64;
    while (room < intervals)
        room *= 2;
    tally->series = tb_grow(tally->series, tally->intervals, room, sizeof *tally->series);
    tally->intervals = room;
}

/* Packs the stretch that has ended; those in which nothing was done are empty. */
static void pack_until(struct lg_latencies *latencies, size_t stretch)
{
    if (stretch > latencies->room) {
        size_t room = 2 * stretch + 64;
        latencies->begins = tb_grow(latencies->begins, latencies->stretch, room,
                                    sizeof *latencies->begins);
        latencies->room = room;
    }
    latencies->begins[latencies->stretch] = latencies->packed.length;
    tb_coarse_hdr_pack(&latencies->current, &latencies->packed);
    memset(&latencies->current, 0, sizeof latencies->current);
    while (++latencies->stretch < stretch)
        latencies->begins[latencies->stretch] = latencies->packed.length;
}

void lg_tally_enter(struct lg_tally *tally, size_t interval)
{
    size_t stretch = interval / tally->latencies.intervals;
    reach(tally, interval + 1);
    if (stretch > tally->latencies.stretch)
        pack_until(&tally->latencies, stretch);
    tally->interval = interval;
}

void lg_tally_latencies(const struct lg_tally *tally, size_t stretch, struct tb_coarse_hdr *into)
{
    const struct lg_latencies *of = &tally->latencies;
    if (stretch == of->stretch) {
        for (size_t i = 0; i < TB_COARSE_COUNTERS; i++)
            into->counts[i] += of->current.counts[i];
    } else if (stretch < of->stretch) {
        size_t begin = of->begins[stretch];
        size_t end = stretch + 1 < of->stretch ? of->begins[stretch + 1] : of->packed.length;
        if (begin < end)
            tb_coarse_hdr_add(into, of->packed.bytes + begin, end - begin);
    }
}

void lg_live_add(const struct lg_live *live, unsigned seen[TB_COARSE_COUNTERS],
                 struct tb_coarse_hdr *into)
{
    for (size_t i = 0; i < TB_COARSE_COUNTERS; i++) {
        unsigned now = atomic_load_explicit(&live->counts[i], memory_order_relaxed);
        into->counts[i] += now - seen[i]; /* a counter that wraps around counts on */
        seen[i] = now;
    }
}

void lg_tally_add(struct lg_tally *tally, const struct lg_tally *other)
{
    tb_hdr_add(&tally->latency, &other->latency);
    tally->count += other->count;
    tally->skipped += other->skipped;
    tally->not_found += other->not_found;
    tally->rolled_back += other->rolled_back;
    tally->retried += other->retried;
    tally->unfinished += other->unfinished;
    reach(tally, other->intervals);
    for (size_t i = 0; i < other->intervals; i++)
        tally->series[i] += other->series[i];
}

void lg_codes_count(struct lg_codes *codes, const char *code, uint64_t times)
{
    size_t i = 0;
    while (i < codes->count && strcmp(codes->of[i].code, code) != 0)
        i++;
    if (i >= LG_MAX_CODES - 1) {
        i = LG_MAX_CODES - 1;
        code = "other";
    }
    if (i >= codes->count) {
        codes->count = i + 1;
        snprintf(codes->of[i].code, sizeof codes->of[i].code, "%s", code);
    }
    codes->of[i].times += times;
}

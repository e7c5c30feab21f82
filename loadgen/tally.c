/* Counting, without a lock: every event loop has its own tallies. */
#include "support.h"
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lg_tally *lg_tallies_new(size_t operations)
{
    struct lg_tally *tallies = aligned_alloc(_Alignof(struct lg_tally),
                                             operations * sizeof *tallies);
    if (!tallies) {
        fprintf(stderr, "loadgen: out of memory: %zu tallies\n", operations);
        abort();
    }
    memset(tallies, 0, operations * sizeof *tallies);
    for (size_t i = 0; i < operations; i++)
        tb_hdr_init(&tallies[i].latency);
    return tallies;
}

void lg_tallies_free(struct lg_tally *tallies, size_t operations)
{
    for (size_t i = 0; i < operations; i++) {
        tb_hdr_free(&tallies[i].latency);
        free(tallies[i].series);
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
    uint64_t *series = tb_allocate(room, sizeof *series);
    if (tally->series)
        memcpy(series, tally->series, tally->intervals * sizeof *series);
    free(tally->series);
    tally->series = series;
    tally->intervals = room;
}

void lg_tally_done(struct lg_tally *tally, size_t interval)
{
    reach(tally, interval + 1);
    tally->series[interval]++;
    tally->count++;
}

void lg_tally_add(struct lg_tally *tally, const struct lg_tally *other)
{
    tb_hdr_add(&tally->latency, &other->latency);
    tally->count += other->count;
    tally->skipped += other->skipped;
    tally->not_found += other->not_found;
    tally->rolled_back += other->rolled_back;
    tally->retried += other->retried;
    tally->failed += other->failed;
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

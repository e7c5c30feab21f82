/*
 * A memory that the power can be cut from at any step.
 *
 * Two images: what the program sees, and what is surely durable. Between them stands every
 * word written since its line was last flushed and fenced. A cut leaves, of each such line, a
 * part of its words: of ordinary stores the first so many in the order they were written (a
 * line leaves the cache as it is at that moment), of non-temporal stores any (they are ordered
 * by fences alone). A cut may follow every single word, flush and fence: cut.step counts them,
 * and `stop_at` ends the run there by a jump.
 */
#pragma once

#include "../durable.h"

#undef NDEBUG /* what lies outside of the memory is an error in every build */
#include <assert.h>
#include <setjmp.h>

enum { CUT_BYTES = 64 * 1024, CUT_LINES = CUT_BYTES / 64, CUT_PENDING = 4096 };

static struct {
    _Alignas(64) char seen[CUT_BYTES];
    char durable[CUT_BYTES];
    struct cut_word {
        size_t at;
        uint64_t value;
        bool flushed; /* durable at the next fence */
    } pending[CUT_PENDING];
    size_t waiting;
    bool non_temporal;
    uint64_t step, stop_at; /* stop_at 0: never */
    jmp_buf stopped;
} cut;

static void cut_reset(bool non_temporal)
{
    memset(cut.seen, 0, sizeof cut.seen);
    memset(cut.durable, 0, sizeof cut.durable);
    cut.waiting = 0;
    cut.non_temporal = non_temporal;
    cut.step = cut.stop_at = 0;
}

/* All that was written so far has arrived. */
static inline void cut_settle(void)
{
    memcpy(cut.durable, cut.seen, sizeof cut.durable);
    cut.waiting = 0;
    cut.step = 0;
}

static void cut_step(void)
{
    if (++cut.step == cut.stop_at)
        longjmp(cut.stopped, 1);
}

static size_t cut_offset(const void *at)
{
    size_t offset = (size_t)((const char *)at - cut.seen);
    assert(offset < CUT_BYTES);
    return offset;
}

static void cut_write(void *to, const void *from, size_t bytes)
{
    assert(bytes % MB_WORD == 0 && (uintptr_t)to % MB_WORD == 0);
    for (size_t done = 0; done < bytes; done += MB_WORD) {
        uint64_t word;
        memcpy(&word, (const char *)from + done, sizeof word);
        memcpy((char *)to + done, &word, sizeof word);
        assert(cut.waiting < CUT_PENDING);
        cut.pending[cut.waiting++] =
            (struct cut_word){cut_offset((char *)to + done), word, cut.non_temporal};
        cut_step();
    }
}

static void cut_flush(const void *at, size_t bytes)
{
    size_t first = cut_offset(at) / MB_LINE, last = (cut_offset(at) + bytes - 1) / MB_LINE;
    for (size_t i = 0; i < cut.waiting; i++) {
        size_t line = cut.pending[i].at / MB_LINE;
        cut.pending[i].flushed |= line >= first && line <= last;
    }
    cut_step();
}

static void cut_fence(void)
{
    size_t left = 0;
    for (size_t i = 0; i < cut.waiting; i++) {
        if (cut.pending[i].flushed)
            memcpy(cut.durable + cut.pending[i].at, &cut.pending[i].value, MB_WORD);
        else
            cut.pending[left++] = cut.pending[i];
    }
    cut.waiting = left;
    cut_step();
}

static const struct mb_medium cut_medium = {"cut", cut_write, cut_flush, cut_fence};

/* Of each line, how many words wait. */
static void cut_count(uint64_t waiting[CUT_LINES])
{
    memset(waiting, 0, CUT_LINES * sizeof *waiting);
    for (size_t i = 0; i < cut.waiting; i++)
        waiting[cut.pending[i].at / MB_LINE]++;
}

/* How many memories a cut may leave of ordinary stores; 0: more than `most`. */
static inline uint64_t cut_images(uint64_t most)
{
    static uint64_t waiting[CUT_LINES];
    uint64_t images = 1;
    cut_count(waiting);
    for (size_t line = 0; line < CUT_LINES; line++) {
        images *= waiting[line] + 1;
        if (images > most)
            return 0;
    }
    return images;
}

/* One of them, by its number. */
static inline void cut_image_of(char *image, uint64_t number)
{
    static uint64_t waiting[CUT_LINES], arrived[CUT_LINES];
    memcpy(image, cut.durable, CUT_BYTES);
    cut_count(waiting);
    for (size_t line = 0; line < CUT_LINES; line++) {
        arrived[line] = number % (waiting[line] + 1);
        number /= waiting[line] + 1;
    }
    for (size_t i = 0; i < cut.waiting; i++) {
        uint64_t *of_line = &arrived[cut.pending[i].at / MB_LINE];
        if (*of_line == 0)
            continue;
        --*of_line;
        memcpy(image + cut.pending[i].at, &cut.pending[i].value, MB_WORD);
    }
}

/* What the cut leaves, by a draw; draw 0: only what is sure, 1: everything. */
static void cut_image(char *image, struct tb_random *random, uint64_t draw)
{
    static uint64_t arrived[CUT_LINES]; /* of each line: how many of its waiting words */
    static uint64_t waiting[CUT_LINES];
    memcpy(image, cut.durable, CUT_BYTES);
    memset(arrived, 0, sizeof arrived);
    cut_count(waiting);
    for (size_t line = 0; line < CUT_LINES; line++)
        if (waiting[line])
            arrived[line] = (uint64_t)tb_random_between(random, 0, (int64_t)waiting[line]);
    for (size_t i = 0; i < cut.waiting; i++) {
        size_t line = cut.pending[i].at / MB_LINE;
        bool here = draw == 1 || (draw > 1 && (cut.non_temporal ? tb_random_next(random) % 2
                                                               : arrived[line] > 0));
        if (arrived[line])
            arrived[line]--;
        if (here)
            memcpy(image + cut.pending[i].at, &cut.pending[i].value, MB_WORD);
    }
}

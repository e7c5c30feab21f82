/*
 * Zipf's law without a period.
 *
 * A ring that came round as it is would find its rare lines in a cache that in truth never sees
 * them again, and a ring that is drawn anew for each round takes as long as the accesses
 * themselves. So ranks go into classes: so narrow that the members' frequencies differ by no more
 * than EVENNESS, the first ranks each by itself. A class has as many draws of the ring as its
 * frequency wants, and behind each round its draws move on by one random distance within the
 * class, around it. A hot line stays where it is; a line of a large class comes back as seldom as
 * its frequency says, at random. That is a few additions for each draw, like a uniform ring's
 * turn: a rank one further is an address one constant step further, around the range.
 *
 * Classes that are due less than one draw of a ring would be in it too often or never. Their
 * draws, a few dozen of a ring, are chosen anew for each round among all of them.
 */
#include "zipf.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

#define EVENNESS (1.0 / 32)

/* Ranks from 0 on. */
struct class {
    uint64_t first, count;
    double mass;       /* the sum of its ranks' r^-s */
    uint64_t around;   /* slots that so many ranks are as `count` */
    uint64_t distance; /* of this round: so many ranks on, around the class */
    uint64_t step[2];  /* in bytes around the range: who stays below the class's end, or not */
};

struct mb_zipf {
    uint64_t slots, factor;
    struct class *classes; /* the frequent ones, one that holds still, the rare ones */
    size_t frequent, count;
    double rare_mass;
    uint64_t *rare; /* where in the ring their draws are */
    uint64_t rare_count;
    uint64_t *member;   /* of each draw: which of its class it is now */
    uint32_t *class_of; /* of each draw; a rare one's holds still */
};

/* The integral of x^-s, shifted so that it is 0 at 1. */
static double integral(double s, double x)
{
    double log_x = log(x), t = (1 - s) * log_x;
    return fabs(t) < 1e-8 ? log_x * (1 + t / 2) : expm1(t) / (1 - s);
}

/* Ranks 1 … n in classes, written where `classes` is not NULL; how many. */
static size_t classify(struct class *classes, double s, uint64_t n)
{
    double width = pow(1 + EVENNESS, 1 / s) - 1;
    size_t found = 0;
    for (uint64_t rank = 1, count; rank <= n; rank += count, found++) {
        double wanted = fmin(width * (double)rank, (double)(n - rank + 1));
        count = wanted < 2 ? 1 : (uint64_t)wanted;
        if (!classes)
            continue;
        /* The midpoint rule, for x^-s is nearly straight between ranks that are so far out. */
        double mass = count == 1 ? pow((double)rank, -s)
                                 : integral(s, (double)(rank + count) - 0.5) -
                                       integral(s, (double)rank - 0.5);
        classes[found] = (struct class){.first = rank - 1, .count = count, .mass = fmax(mass, 0)};
    }
    return found;
}

/* Frequent ones before rare ones, `still` between them. Sums: of the frequent, of the rare. */
static void sort_classes(struct mb_zipf *zipf, const struct class *all, double least,
                         double sums[2])
{
    static const struct class still = {.count = 1};
    size_t into = 0;
    for (int rare = 0; rare < 2; rare++) {
        for (size_t i = 0; i + 1 < zipf->count; i++)
            if ((all[i].mass < least) == rare) {
                sums[rare] += all[i].mass;
                zipf->classes[into++] = all[i];
            }
        if (!rare) {
            zipf->frequent = into;
            zipf->classes[into++] = still;
        }
    }
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Ranks are spread over the range, as a hash would: 1:1, by a factor without common divisor. */
static uint64_t spreading_factor(uint64_t slots)
{
    uint64_t factor = (uint64_t)((double)slots * 0.6180339887498949) | 1;
    while (greatest_divisor(factor, slots) != 1)
        factor++;
    return factor;
}

static uint64_t slot_of(const struct mb_zipf *zipf, uint64_t rank)
{
    if (zipf->slots <= UINT32_MAX) /* neither is larger */
        return rank * zipf->factor % zipf->slots;
    return (uint64_t)((__uint128_t)rank * zipf->factor % zipf->slots);
}

static uint64_t below(struct lg_random *random, uint64_t count)
{
    return (uint64_t)lg_random_between(random, 0, (int64_t)count - 1);
}

/*
 * Which class each of `draws` is of: as many of each as its share, one more or less (the random
 * part decides). Systematic sampling: less noise than drawing them one by one.
 */
struct sampler {
    const struct class *class;
    double upto, each, at;
};

static struct sampler sampler_of(const struct class *first, double mass, uint64_t draws,
                                 struct lg_random *random)
{
    double each = mass / (double)draws;
    return (struct sampler){first, first->mass, each, each * (1 - lg_random_fraction(random))};
}

static const struct class *next_class(struct sampler *sampler, const struct class *last)
{
    while (sampler->at >= sampler->upto && sampler->class < last)
        sampler->upto += (++sampler->class)->mass;
    sampler->at += sampler->each;
    return sampler->class;
}

static char *address_of(const struct mb_cursor *cursor, uint64_t rank)
{
    return cursor->base + slot_of(cursor->zipf, rank) * cursor->access_bytes;
}

/* Draws of rare classes, for one round. */
static void draw_rare(struct mb_cursor *cursor)
{
    const struct mb_zipf *zipf = cursor->zipf;
    if (zipf->rare_count == 0)
        return;
    const struct class *last = zipf->classes + zipf->count - 1;
    struct sampler sampler = sampler_of(zipf->classes + zipf->frequent + 1, zipf->rare_mass,
                                        zipf->rare_count, &cursor->random);
    for (uint64_t i = 0; i < zipf->rare_count; i++) {
        const struct class *class = next_class(&sampler, last);
        uint64_t rank = class->first + below(&cursor->random, class->count);
        cursor->ring[zipf->rare[i]] = address_of(cursor, rank);
    }
}

/* Which class each draw is of, in random order; the draws of rare ones are noted. */
static void deal(struct mb_cursor *cursor, double mass)
{
    struct mb_zipf *zipf = cursor->zipf;
    uint64_t draws = cursor->ring_count, frequent = draws - zipf->rare_count;
    const struct class *last = zipf->classes + zipf->frequent - 1;
    struct sampler sampler = sampler_of(zipf->classes, mass, frequent, &cursor->random);
    for (uint64_t i = 0; i < draws; i++) {
        uint64_t other = below(&cursor->random, i + 1); /* shuffled from inside out */
        zipf->class_of[i] = zipf->class_of[other];
        zipf->class_of[other] =
            (uint32_t)(i < frequent ? (size_t)(next_class(&sampler, last) - zipf->classes)
                                    : zipf->frequent);
    }
    for (uint64_t i = 0, rare = 0; i < draws; i++)
        if (zipf->class_of[i] == zipf->frequent)
            zipf->rare[rare++] = i;
}

void mb_zipf_begin(struct mb_cursor *cursor, uint64_t slots)
{
    struct mb_zipf *zipf = cursor->zipf = lg_allocate(1, sizeof *zipf);
    double s = cursor->pattern.zipf_exponent, draws = (double)cursor->ring_count, total = 0;
    double sums[2] = {0, 0};
    zipf->slots = slots;
    zipf->factor = spreading_factor(slots);
    zipf->count = classify(NULL, s, slots) + 1;
    zipf->classes = lg_allocate(zipf->count, sizeof *zipf->classes);
    struct class *all = lg_allocate(zipf->count, sizeof *all);
    classify(all, s, slots);
    for (size_t i = 0; i + 1 < zipf->count; i++)
        total += all[i].mass;
    sort_classes(zipf, all, total / draws, sums);
    free(all);
    zipf->rare_mass = sums[1];
    zipf->rare_count =
        (uint64_t)(draws * sums[1] / total + 1 - lg_random_fraction(&cursor->random));
    zipf->rare = lg_allocate(zipf->rare_count + 1, sizeof *zipf->rare);
    zipf->member = lg_allocate(cursor->ring_count, sizeof *zipf->member);
    zipf->class_of = lg_allocate(cursor->ring_count, sizeof *zipf->class_of);
    for (size_t i = 0; i < zipf->frequent; i++)
        zipf->classes[i].around = slot_of(zipf, zipf->classes[i].count);
    deal(cursor, sums[0]);
    for (uint64_t i = 0; i < cursor->ring_count; i++) {
        const struct class *class = &zipf->classes[zipf->class_of[i]];
        zipf->member[i] = below(&cursor->random, class->count);
        cursor->ring[i] = address_of(cursor, class->first + zipf->member[i]);
    }
    draw_rare(cursor);
}

/* One random number for all classes: each moves on by the same part of itself. */
static void move_classes(struct mb_cursor *cursor)
{
    struct mb_zipf *zipf = cursor->zipf;
    uint64_t part = lg_random_next(&cursor->random);
    for (size_t i = 0; i < zipf->frequent; i++) {
        struct class *class = &zipf->classes[i];
        if (class->count == 1)
            continue;
        class->distance = (uint64_t)((__uint128_t)part * class->count >> 64);
        uint64_t on = slot_of(zipf, class->distance);
        uint64_t back = on < class->around ? on + zipf->slots - class->around : on - class->around;
        class->step[0] = on * cursor->access_bytes;
        class->step[1] = back * cursor->access_bytes;
    }
}

/* Without branches: which way a draw goes cannot be foreseen. */
void mb_zipf_turn(struct mb_cursor *cursor)
{
    struct mb_zipf *zipf = cursor->zipf;
    uint64_t range = zipf->slots * cursor->access_bytes;
    move_classes(cursor);
    for (uint64_t i = 0; i < cursor->ring_count; i++) {
        const struct class *class = &zipf->classes[zipf->class_of[i]];
        uint64_t member = zipf->member[i] + class->distance;
        uint64_t beyond = member >= class->count;
        zipf->member[i] = member - (class->count & -beyond);
        cursor->ring[i] = mb_around(cursor->ring[i] + class->step[beyond], cursor->base, range);
    }
    draw_rare(cursor);
}

void mb_zipf_end(struct mb_cursor *cursor)
{
    struct mb_zipf *zipf = cursor->zipf;
    if (!zipf)
        return;
    free(zipf->classes);
    free(zipf->rare);
    free(zipf->member);
    free(zipf->class_of);
    free(zipf);
    cursor->zipf = NULL;
}

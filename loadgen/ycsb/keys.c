/* See keys.h; the official classes are named where they are followed. */
#include "keys.h"

#include <endian.h>
#include <math.h>
#include <sys/mman.h>

void lg_ycsb_keys_open(struct lg_ycsb_keys *keys, const struct lg_ycsb_params *params,
                       struct lg_ycsb_inserts *inserts)
{
    *keys = (struct lg_ycsb_keys){.params = params, .inserts = inserts};
    keys->hot = (int64_t)((double)params->insertcount * params->hotspot_data);
    keys->cold = params->insertcount - keys->hot;
    keys->room = (uint64_t)(params->insertcount + params->expectednewkeys) + 1;
    keys->room_inverse = UINT64_MAX / keys->room;
    keys->gamma = -log(1.0 - params->exponential_percentile / 100.0) /
                  ((double)params->recordcount * params->exponential_fraction);
    tb_zipfian_open(&keys->scans, params->minscanlength, params->maxscanlength);
    if (params->request == YCSB_LATEST) /* over the last record's number, as the official one */
        tb_zipfian_open(&keys->requests, 0, params->recordcount - 2);
    else
        tb_zipfian_open_scrambled(&keys->requests);
}

void lg_ycsb_chooser_open(struct lg_ycsb_chooser *chooser, const struct lg_ycsb_keys *keys)
{
    chooser->latest = keys->requests;
}

/* SkewedLatestGenerator: so many records after the last one that was acknowledged. */
static int64_t latest(struct lg_ycsb_chooser *chooser, int64_t last, double u)
{
    tb_zipfian_grow(&chooser->latest, last);
    return last - tb_zipfian_at(&chooser->latest, last, u);
}

/* HotspotIntegerGenerator. */
static int64_t hotspot(const struct lg_ycsb_keys *keys, struct tb_random *random)
{
    bool hot = lg_ycsb_uniform(random) < keys->params->hotspot_operations;

    if (keys->cold == 0 || (hot && keys->hot > 0))
        return tb_random_between(random, 0, keys->hot - 1);
    return keys->hot + tb_random_between(random, 0, keys->cold - 1);
}

/* hash % room without a division: the estimate is one or two too few at most. */
static uint64_t modulo_room(const struct lg_ycsb_keys *keys, uint64_t hash)
{
    uint64_t quotient = (uint64_t)((unsigned __int128)hash * keys->room_inverse >> 64);
    uint64_t rest = hash - quotient * keys->room;

    while (rest >= keys->room)
        rest -= keys->room;
    return rest;
}

/* ScrambledZipfianGenerator: there is room for records still to come, so that no key's rank moves. */
static int64_t scrambled(const struct lg_ycsb_keys *keys, struct tb_random *random)
{
    int64_t rank = tb_zipfian_at(&keys->requests, keys->requests.items,
                                      lg_ycsb_uniform(random));

    return (int64_t)modulo_room(keys, tb_fnv((uint64_t)rank));
}

static int64_t draw(struct lg_ycsb_keys *keys, struct lg_ycsb_chooser *chooser,
                    struct tb_random *random, int64_t last)
{
    const struct lg_ycsb_params *params = keys->params;
    uint64_t turn;

    switch (params->request) {
    case YCSB_LATEST:
        return latest(chooser, last, lg_ycsb_uniform(random));
    case YCSB_EXPONENTIAL: /* towards the last one; what is before the first is drawn again */
        return last - (int64_t)fmin(-log(tb_random_fraction(random)) / keys->gamma, 1e18);
    case YCSB_ZIPFIAN:
        return params->insertstart + scrambled(keys, random);
    case YCSB_HOTSPOT:
        return params->insertstart + hotspot(keys, random);
    case YCSB_SEQUENTIAL:
        turn = atomic_fetch_add_explicit(&keys->sequence, 1, memory_order_relaxed);
        return params->insertstart + (int64_t)(turn % (uint64_t)params->insertcount);
    default:
        return params->insertstart + tb_random_between(random, 0, params->insertcount - 1);
    }
}

int64_t lg_ycsb_choose(struct lg_ycsb_keys *keys, struct lg_ycsb_chooser *chooser,
                       struct tb_random *random)
{
    for (;;) {
        int64_t last = keys->params->recordcount + lg_ycsb_inserts_done(keys->inserts) - 1;
        int64_t number = draw(keys, chooser, random, last);

        if (number >= 0 && number <= last)
            return number;
    }
}

int64_t lg_ycsb_scan_length(const struct lg_ycsb_keys *keys, struct tb_random *random)
{
    const struct lg_ycsb_params *params = keys->params;
    int64_t length;

    if (params->scan_length != YCSB_ZIPFIAN)
        return tb_random_between(random, params->minscanlength, params->maxscanlength);
    length = tb_zipfian_at(&keys->scans, keys->scans.items, lg_ycsb_uniform(random));
    return length < params->maxscanlength ? length : params->maxscanlength;
}

/*
 * Eight decimal digits at once, those of a number below 10^8 with its zeros before it:
 * halves, quarters, digits, each in a part of one word. The first digit is the lowest octet.
 */
static uint64_t eight_digits(uint64_t number)
{
    uint64_t halves = number / 10000 | (number % 10000) << 32;
    uint64_t hundreds = (halves * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    uint64_t quarters = hundreds | (halves - 100 * hundreds) << 16;
    uint64_t tens = (quarters * 103 >> 10) & UINT64_C(0x000f000f000f000f);

    return tens | (quarters - 10 * tens) << 8;
}

static void write_word(char *to, uint64_t digits)
{
    uint64_t text = htole64(digits + UINT64_C(0x3030303030303030));

    memcpy(to, &text, sizeof text);
}

/* Without the zeros; eight octets are written all the same. How many of them count. */
static size_t write_first(char *to, uint64_t number)
{
    static const uint64_t last = UINT64_C(1) << 56; /* of 0, one zero counts */
    uint64_t digits = eight_digits(number);
    int zeros = __builtin_ctzll(digits | last) / 8;

    write_word(to, digits >> 8 * zeros);
    return (size_t)(8 - zeros);
}

/* Every digit goes where it belongs at once: to copy what was just written stalls a processor. */
static size_t write_number(char *to, uint64_t number)
{
    static const uint64_t eight = 100000000;
    size_t count;

    if (number < eight)
        return write_first(to, number);
    if (number < eight * eight) {
        count = write_first(to, number / eight);
    } else {
        count = write_first(to, number / eight / eight);
        write_word(to + count, eight_digits(number / eight % eight));
        count += 8;
    }
    write_word(to + count, eight_digits(number % eight));
    return count + 8;
}

size_t lg_ycsb_key(const struct lg_ycsb_params *params, int64_t number, char *key)
{
    uint64_t value = params->ordered ? (uint64_t)number : tb_fnv((uint64_t)number);
    size_t wanted = params->zeropadding > 0 ? (size_t)params->zeropadding : 0, count;

    memcpy(key, "user", 4);
    count = write_number(key + 4, value);
    if (count < wanted) {
        memmove(key + 4 + wanted - count, key + 4, count);
        memset(key + 4, '0', wanted - count);
        count = wanted;
    }
    return 4 + count;
}

/* ---- inserts ------------------------------------------------------------------- */

struct lg_ycsb_inserts *lg_ycsb_inserts_open(const char *shared, struct tb_error *error)
{
    return tb_shared_memory(shared, sizeof(struct lg_ycsb_inserts), error);
}

void lg_ycsb_inserts_close(struct lg_ycsb_inserts *inserts)
{
    munmap(inserts, sizeof *inserts);
}

static atomic_uchar *place_of(struct lg_ycsb_inserts *inserts, uint64_t number)
{
    return &inserts->window[number % YCSB_INSERT_WINDOW];
}

/* Over all that is there without a gap; once around the window at most. */
static void move(struct lg_ycsb_inserts *inserts)
{
    uint64_t done = atomic_load(&inserts->acknowledged), limit = done + YCSB_INSERT_WINDOW;

    while (done < limit && atomic_load(place_of(inserts, done)))
        atomic_store(place_of(inserts, done++), 0);
    atomic_store_explicit(&inserts->acknowledged, done, memory_order_release);
}

bool lg_ycsb_inserts_acknowledge(struct lg_ycsb_inserts *inserts, int64_t number)
{
    if (atomic_exchange(place_of(inserts, (uint64_t)number), 1))
        return false;
    /* Whoever finds another one moving leaves it to that one, which looks again after it. */
    while (atomic_load(place_of(inserts, atomic_load(&inserts->acknowledged))) &&
           !atomic_flag_test_and_set(&inserts->moving)) {
        move(inserts);
        atomic_flag_clear(&inserts->moving);
    }
    return true;
}

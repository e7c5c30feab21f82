/* TPC-C's skewed numbers, its constants C and its last names. */
#include "tpcc.h"

/* Streams of the constants, beyond those of tables (population.c) and terminals. */
#define STREAM_C_LOAD (UINT64_C(1) << 48)
#define STREAM_C_RUN (UINT64_C(2) << 48)

int32_t lg_tpcc_nurand(struct tb_random *random, int32_t a, int32_t x, int32_t y, int32_t c)
{
    int32_t bits = (int32_t)tb_random_between(random, 0, a);
    int32_t even = (int32_t)tb_random_between(random, x, y);

    return ((bits | even) + c) % (y - x + 1) + x;
}

int32_t lg_tpcc_draw_customer(struct tb_random *random, const struct lg_tpcc_constants *c)
{
    return lg_tpcc_nurand(random, 1023, 1, TPCC_CUSTOMERS, c->c_id);
}

int32_t lg_tpcc_draw_item(struct tb_random *random, const struct lg_tpcc_constants *c)
{
    return lg_tpcc_nurand(random, 8191, 1, TPCC_ITEMS, c->ol_i_id);
}

int32_t lg_tpcc_draw_last_name(struct tb_random *random, int32_t c_last)
{
    return lg_tpcc_nurand(random, 255, 0, TPCC_LAST_NAMES - 1, c_last);
}

int32_t lg_tpcc_c_load(uint64_t data_seed)
{
    struct tb_random random;

    tb_random_seed(&random, data_seed, STREAM_C_LOAD);
    return (int32_t)tb_random_between(&random, 0, 255);
}

bool lg_tpcc_c_delta_allowed(int32_t c_load, int32_t c_run)
{
    int32_t delta = abs(c_load - c_run);

    return delta >= 65 && delta <= 119 && delta != 96 && delta != 112;
}

struct lg_tpcc_constants lg_tpcc_c_run(uint64_t seed, int32_t c_load)
{
    struct tb_random random;
    struct lg_tpcc_constants c;

    tb_random_seed(&random, seed, STREAM_C_RUN);
    do
        c.c_last = (int32_t)tb_random_between(&random, 0, 255);
    while (!lg_tpcc_c_delta_allowed(c_load, c.c_last));
    c.c_id = (int32_t)tb_random_between(&random, 0, 1023);
    c.ol_i_id = (int32_t)tb_random_between(&random, 0, 8191);
    return c;
}

size_t lg_tpcc_last_name(int32_t number, char name[TPCC_LAST_NAME_BYTES])
{
    static const char *const syllables[] = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                            "ESE", "ANTI",  "CALLY", "ATION", "EING"};
    const int32_t digits[] = {number / 100, number / 10 % 10, number % 10};
    size_t length = 0;

    for (size_t i = 0; i < 3; i++) {
        const char *syllable = syllables[digits[i]];
        size_t bytes = strlen(syllable);

        memcpy(name + length, syllable, bytes);
        length += bytes;
    }
    name[length] = '\0';
    return length;
}

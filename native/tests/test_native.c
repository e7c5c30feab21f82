/* Histogram, random numbers, clock, text, keys of a JSON object. */
#include "native.h"
#include "check.h"

TEST(histogram_counts_all_recorded_values)
{
    struct tb_hdr one, other;
    tb_hdr_init(&one);
    tb_hdr_init(&other);
    tb_hdr_record(&one, 0, 1);
    tb_hdr_record(&one, UINT64_MAX, 2); /* an hour at most, and inside the array */
    tb_hdr_record(&other, 1500, 3);
    tb_hdr_add(&one, &other);
    CHECK(one.total == 6);
    char *empty = tb_hdr_encode(&other), *full = tb_hdr_encode(&one);
    CHECK(strlen(empty) > 0 && strlen(full) % 4 == 0);
    free(empty);
    free(full);
    tb_hdr_free(&one);
    tb_hdr_free(&other);
}

/* A counter every 8 ns at first, then of at most 1/128 of its value; packed and read back. */
TEST(a_coarse_histogram_is_packed)
{
    static const uint64_t values[] = {0,    7,       8,          2047,
                                      2048, 1000000, 3600000000, UINT64_MAX};
    static struct tb_coarse_hdr whole, both;
    struct tb_text packed = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t times = 0; times <= i * 50; times++)
            tb_coarse_hdr_record(&whole, values[i]);
    CHECK(whole.counts[0] == 52 && whole.counts[1] == 101); /* 0 and 7 ns; 8 ns */
    CHECK(whole.counts[255] == 151 && whole.counts[256] == 201);
    tb_coarse_hdr_pack(&whole, &packed);
    CHECK(packed.length < 64);
    tb_coarse_hdr_add(&both, packed.bytes, packed.length);
    CHECK(memcmp(&whole, &both, sizeof both) == 0);
    tb_coarse_hdr_add(&both, packed.bytes, packed.length);
    CHECK(both.counts[256] == 402);
    free(packed.bytes);
}

TEST(random_streams_repeat_and_differ)
{
    struct tb_random one, same, turned, following;
    tb_random_seed(&one, 1, 2);
    tb_random_seed(&same, 1, 2);
    tb_random_seed(&turned, 2, 1);
    tb_random_seed(&following, 1, 3);
    for (size_t i = 0; i < 100; i++) {
        uint64_t next = tb_random_next(&one);
        CHECK_CASE(next == tb_random_next(&same), i);
        CHECK_CASE(next != tb_random_next(&turned), i);
        CHECK_CASE(next != tb_random_next(&following), i);
    }
}

TEST(random_numbers_reach_both_ends_evenly)
{
    struct tb_random random;
    int counts[7] = {0};
    tb_random_seed(&random, 42, 0);
    for (int i = 0; i < 70000; i++) {
        int64_t drawn = tb_random_between(&random, -3, 3);
        CHECK(drawn >= -3 && drawn <= 3);
        counts[drawn + 3]++;
    }
    for (size_t i = 0; i < 7; i++) /* 10000 ± 93 is one standard deviation */
        CHECK_CASE(counts[i] > 9500 && counts[i] < 10500, i);
    CHECK(tb_random_between(&random, 5, 5) == 5);
    tb_random_between(&random, INT64_MIN, INT64_MAX);
    for (size_t i = 0; i < 1000; i++) {
        double fraction = tb_random_fraction(&random);
        CHECK_CASE(fraction > 0 && fraction <= 1, i);
    }
}

struct keys {
    int64_t threads;
    double share;
    bool padded, write;
};

/* Whether one key, of these, is read. */
static bool reads(const json_t *object, struct tb_param param, struct keys *keys,
                  struct tb_error *error)
{
    const struct tb_param params[] = {param, {0}};
    return tb_params_read(params, object, keys, error);
}

TEST(keys_are_read_with_limits_and_defaults)
{
    static const char *const words[] = {"read", "write", NULL};
    static const struct tb_param known[] = {
        TB_OTHER_KEY("threads"), TB_OTHER_KEY("share"), TB_OTHER_KEY("operation"),
        TB_OTHER_KEY("padded"), {0}};
    json_t *object = json_pack("{s:i, s:f, s:s, s:n}", "threads", 5, "share", 0.5, "operation",
                               "write", "padded");
    struct tb_error error = {""};
    struct keys keys;
#define INTEGER(key, most, fallback) \
    (struct tb_param) TB_INTEGER_KEY(struct keys, key, threads, 1, most, fallback)
#define WORD(key, fallback) \
    (struct tb_param) TB_WORD_KEY(struct keys, key, write, words, 0, fallback)
#define FLAG(key) (struct tb_param) TB_FLAG_KEY(struct keys, key, padded, true)
    struct tb_param twice = INTEGER("threads", 6, 1);
    twice.unit = 2;
    CHECK(tb_params_known(known, NULL, object, &error));
    CHECK(tb_params_known(known + 1, known, object, &error));
    CHECK(!tb_params_known(known + 1, NULL, object, &error));
    CHECK(reads(object, INTEGER("threads", 5, TB_REQUIRED), &keys, &error) && keys.threads == 5);
    CHECK(!reads(object, INTEGER("threads", 4, 1), &keys, &error));
    CHECK(!reads(object, twice, &keys, &error));
    CHECK(!reads(object, INTEGER("missing", 4, TB_REQUIRED), &keys, &error));
    CHECK(reads(object, INTEGER("missing", 4, 3), &keys, &error) && keys.threads == 3);
    CHECK(reads(object, (struct tb_param)TB_NUMBER_KEY(struct keys, "share", share, 0, 1, 0), &keys,
                &error) && keys.share == 0.5);
    CHECK(reads(object, FLAG("padded"), &keys, &error) && keys.padded); /* null: the default */
    CHECK(!reads(object, FLAG("share"), &keys, &error));
    CHECK(reads(object, WORD("operation", -1), &keys, &error) && keys.write);
    CHECK(reads(object, WORD("missing", 0), &keys, &error) && !keys.write);
    CHECK(!reads(object, WORD("missing", -1), &keys, &error));
    CHECK(!tb_fail_within(&error, "job %s: ", "j"));
    CHECK(strncmp(error.text, "job j: missing: ", 16) == 0);
    json_decref(object);
}

int main(void)
{
    return checks_failed();
}

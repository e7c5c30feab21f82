/* Histogram, random numbers, clock, text, keys of a JSON object. */
#include "../clock.h"
#include "../hdr.h"
#include "../json.h"
#include "../random.h"
#include "check.h"

#include <stdlib.h>

static void histogram_counts_all_recorded_values(void)
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
static void a_coarse_histogram_is_packed(void)
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

static void random_streams_repeat_and_differ(void)
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

static void random_numbers_reach_both_ends_evenly(void)
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

static void keys_are_read_with_limits_and_defaults(void)
{
    static const char *const words[] = {"read", "write", NULL};
    static const char *const keys[] = {"threads", "share", "operation", "padded", NULL};
    json_t *object = json_pack("{s:i, s:f, s:s, s:n}", "threads", 5, "share", 0.5, "operation",
                               "write", "padded");
    struct tb_error error = {""};
    int64_t threads;
    double share;
    bool padded;
    int operation;
    CHECK(tb_only_keys(object, keys, NULL, &error));
    CHECK(!tb_only_keys(object, keys + 1, words, &error));
    CHECK(tb_read_integer(object, "threads", 1, 5, TB_REQUIRED, &threads, &error) && threads == 5);
    CHECK(!tb_read_integer(object, "threads", 1, 4, 1, &threads, &error));
    CHECK(!tb_read_integer(object, "missing", 1, 4, TB_REQUIRED, &threads, &error));
    CHECK(tb_read_integer(object, "missing", 1, 4, 3, &threads, &error) && threads == 3);
    CHECK(tb_read_number(object, "share", 0, 1, 0, &share, &error) && share == 0.5);
    CHECK(tb_read_flag(object, "padded", true, &padded, &error) && padded); /* null: the default */
    CHECK(!tb_read_flag(object, "share", true, &padded, &error));
    CHECK(tb_read_word(object, "operation", words, -1, &operation, &error) && operation == 1);
    CHECK(tb_read_word(object, "missing", words, 0, &operation, &error) && operation == 0);
    CHECK(!tb_read_word(object, "missing", words, -1, &operation, &error));
    CHECK(!tb_fail_within(&error, "job %s: ", "j"));
    CHECK(strncmp(error.text, "job j: missing: ", 16) == 0);
    json_decref(object);
}

int main(void)
{
    histogram_counts_all_recorded_values();
    a_coarse_histogram_is_packed();
    random_streams_repeat_and_differ();
    random_numbers_reach_both_ends_evenly();
    keys_are_read_with_limits_and_defaults();
    return checks_failed();
}

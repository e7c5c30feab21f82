/* The parts of YCSB that need no engine: generators, keys, inserts. */
#include "check.h"
#include "../record.h"
#include "../ycsb/keys.h"
#include "../ycsb/values.h"
#include "ycsb_params.h"

#include <math.h>

/* ---- generators ---------------------------------------------------------------- */

static double naive_zeta(int64_t first, int64_t last)
{
    double sum = 0;

    for (int64_t i = first; i <= last; i++)
        sum += 1 / pow((double)i, 0.99);
    return sum;
}

TEST(zeta_is_the_sum_it_stands_for)
{
    static const int64_t ends[][2] = {{1, 1},      {1, 2},       {1, 999},     {1, 1000},
                                      {1, 1001},   {1, 200000},  {500, 1700},  {1001, 1001},
                                      {1001, 1018}, {77777, 78000}, {77777, 77780}};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        double sum = naive_zeta(ends[i][0], ends[i][1]);

        CHECK_CASE(fabs(tb_zeta(ends[i][0], ends[i][1]) - sum) <= 1e-11 * sum, i);
    }
    /* ScrambledZipfianGenerator.ZETAN, added up term by term over 10^10 items. */
    CHECK(fabs(tb_zeta(1, INT64_C(10000000000)) - 26.46902820178302) < 1e-7);
}

TEST(a_zipfian_that_grows_is_one_that_was_larger)
{
    struct tb_zipfian grown, larger;

    tb_zipfian_open(&grown, 0, 99);
    tb_zipfian_open(&larger, 0, 9999);
    for (int64_t items = 101; items <= 10000; items += 1 + items / 7)
        tb_zipfian_grow(&grown, items);
    tb_zipfian_grow(&grown, 10000);
    tb_zipfian_grow(&grown, 5); /* never fewer */
    CHECK(grown.counted == 10000);
    CHECK(fabs(grown.zetan - larger.zetan) < 1e-10);
}

/* Frequencies of the first ranks against 1 / (rank^0.99 zeta). */
TEST(the_first_ranks_have_their_share)
{
    enum { ITEMS = 1000, DRAWS = 2000000 };
    struct tb_zipfian zipfian;
    struct tb_random random;
    static int64_t counts[ITEMS];

    tb_zipfian_open(&zipfian, 0, ITEMS - 1);
    tb_random_seed(&random, 3, 3);
    for (int i = 0; i < DRAWS; i++) {
        int64_t rank = tb_zipfian_at(&zipfian, ITEMS, lg_ycsb_uniform(&random));

        CHECK(rank >= 0 && rank < ITEMS);
        counts[rank]++;
    }
    for (int rank = 0; rank < 2; rank++) { /* of these the formula is exact */
        double share = pow(rank + 1, -0.99) / zipfian.zetan;
        double deviation = sqrt(DRAWS * share * (1 - share));

        CHECK_CASE(fabs((double)counts[rank] - DRAWS * share) < 5 * deviation, rank);
    }
    CHECK(counts[1] > counts[5] && counts[5] > counts[50] && counts[50] > counts[500]);
}

/* Ranks by the official formula, word for word. */
TEST(ranks_are_those_of_the_formula)
{
    struct tb_zipfian zipfian;
    struct tb_random random;
    double alpha = 1.0 / (1.0 - 0.99);

    tb_zipfian_open_scrambled(&zipfian);
    tb_random_seed(&random, 5, 5);
    for (int i = 0; i < 100000; i++) {
        double u = lg_ycsb_uniform(&random), uz = u * zipfian.zetan;
        double rank = 10000000001.0 * pow(zipfian.eta * u - zipfian.eta + 1, alpha);
        int64_t found = tb_zipfian_at(&zipfian, zipfian.items, u);

        if (uz < 1)
            CHECK(found == 0);
        else if (uz < 1 + pow(0.5, 0.99))
            CHECK(found == 1);
        else
            CHECK(found <= rank * (1 + 1e-12) && found + 1 >= rank * (1 - 1e-12));
    }
}

TEST(keys_are_the_official_ones)
{
    /* The first three are what Utils.hash of YCSB 0.17.0 prints; the others follow buildKeyName. */
    static const struct {
        int64_t number;
        const char *params, *key;
    } cases[] = {
        {0, "{\"recordcount\": 1}", "user6284781860667377211"},
        {1, "{\"recordcount\": 1}", "user8517097267634966620"},
        {2, "{\"recordcount\": 1}", "user1820151046732198393"},
        {7, "{\"recordcount\": 1, \"insertorder\": \"ordered\"}", "user7"},
        {7, "{\"recordcount\": 1, \"insertorder\": \"ordered\", \"zeropadding\": 5}", "user00007"},
        {0, "{\"recordcount\": 1, \"zeropadding\": 21}", "user006284781860667377211"},
        {0, "{\"recordcount\": 1, \"insertorder\": \"ordered\", \"zeropadding\": 0}", "user0"},
        {281474976710655, "{\"recordcount\": 1, \"insertorder\": \"ordered\"}",
         "user281474976710655"},
        {1234567890, "{\"recordcount\": 1, \"insertorder\": \"ordered\"}", "user1234567890"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lg_ycsb_params params = params_of(cases[i].params);
        char key[YCSB_KEY_BYTES + 1];

        key[lg_ycsb_key(&params, cases[i].number, key)] = '\0';
        CHECK_TEXT(key, cases[i].key);
    }
}

TEST(numbers_of_every_length_are_written)
{
    struct lg_ycsb_params hashed = params_of("{\"recordcount\": 1}");
    struct lg_ycsb_params ordered = params_of("{\"recordcount\": 1, \"insertorder\": \"ordered\"}");
    struct tb_random random;

    tb_random_seed(&random, 8, 8);
    for (int i = 0; i < 100000; i++) {
        uint64_t number = tb_random_next(&random) >> (1 + i % 63);
        char key[YCSB_KEY_BYTES + 1], expected[64];

        key[lg_ycsb_key(&ordered, (int64_t)number, key)] = '\0';
        snprintf(expected, sizeof expected, "user%" PRIu64, number);
        CHECK_TEXT(key, expected);
        key[lg_ycsb_key(&hashed, (int64_t)number, key)] = '\0';
        snprintf(expected, sizeof expected, "user%" PRIu64, tb_fnv(number));
        CHECK_TEXT(key, expected);
    }
}

/* ---- which record -------------------------------------------------------------- */

enum { RECORDS = 1000, DRAWS = 200000 };

/* How often each record is drawn. */
static void draw_keys(const char *text, int64_t inserts, int64_t *counts)
{
    struct lg_ycsb_params params = params_of(text);
    struct tb_error error = {""};
    struct lg_ycsb_inserts *inserted = lg_ycsb_inserts_open(NULL, &error);
    struct lg_ycsb_keys keys;
    struct lg_ycsb_chooser chooser;
    struct tb_random random;

    lg_ycsb_keys_open(&keys, &params, inserted);
    lg_ycsb_chooser_open(&chooser, &keys);
    tb_random_seed(&random, 11, 0);
    for (int64_t i = 0; i < inserts; i++)
        CHECK(lg_ycsb_inserts_acknowledge(inserted, lg_ycsb_inserts_begin(inserted)));
    lg_ycsb_inserts_begin(inserted); /* one that may not be read yet */
    memset(counts, 0, 2 * RECORDS * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        int64_t number = lg_ycsb_choose(&keys, &chooser, &random);

        CHECK(number >= 0 && number < RECORDS + inserts);
        counts[number]++;
    }
    lg_ycsb_inserts_close(inserted);
}

static int64_t sum_of(const int64_t *counts, int first, int last)
{
    int64_t sum = 0;

    for (int i = first; i <= last; i++)
        sum += counts[i];
    return sum;
}

static bool about(int64_t count, double share)
{
    return fabs((double)count - DRAWS * share) < 5 * sqrt(DRAWS * share * (1 - share)) + 1;
}

TEST(records_are_drawn_as_their_distribution_says)
{
    static int64_t counts[2 * RECORDS];

    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"uniform\", \"insertstart\": 100}",
              0, counts);
    CHECK(sum_of(counts, 0, 99) == 0 && about(sum_of(counts, 100, 549), 0.5));
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"hotspot\", "
              "\"hotspotdatafraction\": 0.1, \"hotspotopnfraction\": 0.7}", 0, counts);
    CHECK(about(sum_of(counts, 0, 99), 0.7) && about(sum_of(counts, 100, 549), 0.15));
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"hotspot\", "
              "\"hotspotdatafraction\": 0}", 0, counts);
    CHECK(sum_of(counts, 0, 999) == DRAWS);
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"hotspot\", "
              "\"hotspotdatafraction\": 1}", 0, counts);
    CHECK(sum_of(counts, 0, 999) == DRAWS);
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"sequential\"}", 0, counts);
    CHECK(counts[0] == DRAWS / RECORDS && counts[999] == DRAWS / RECORDS);
    /* 95 of 100 within the last seventh, as far as they are there at all. */
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"exponential\", "
              "\"exponential.frac\": 0.142857}", 0, counts);
    CHECK(about(sum_of(counts, 858, 999), 1 - pow(0.05, 142 / 142.857)));
    /* The last one that was acknowledged is the most popular. */
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"latest\"}", 500, counts);
    CHECK(about(counts[1499], 1 / tb_zeta(1, 1499)));
    CHECK(sum_of(counts, 1000, 1499) > DRAWS / 2);
}

/* The hottest ranks, scrambled: where the official formula puts them. */
TEST(scrambled_ranks_are_where_their_hash_is)
{
    static int64_t counts[2 * RECORDS];
    double share[RECORDS] = {0}, zeta = 26.46902820178302;

    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"zipfian\"}", 0, counts);
    for (uint64_t rank = 0; rank < 2; rank++) /* room for one more than there are: drawn again */
        share[tb_fnv(rank) % 1001] += pow((double)rank + 1, -0.99) / zeta;
    for (int i = 0; i < RECORDS; i++)
        if (share[i] > 0)
            CHECK_CASE((double)counts[i] > DRAWS * share[i], i);
    /* With room for twice as many, half of all draws are drawn again; nothing is out of range. */
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"zipfian\", "
              "\"insertproportion\": 0.5, \"operationcount\": 1000}", 300, counts);
    CHECK(sum_of(counts, 1000, 1299) > 0);
}

/* ---- inserts ------------------------------------------------------------------- */

TEST(an_insert_counts_when_all_before_it_do)
{
    struct tb_error error = {""};
    struct lg_ycsb_inserts *inserts = lg_ycsb_inserts_open(NULL, &error);

    for (int i = 0; i < 5; i++)
        CHECK(lg_ycsb_inserts_begin(inserts) == i);
    CHECK(lg_ycsb_inserts_acknowledge(inserts, 1));
    CHECK(lg_ycsb_inserts_acknowledge(inserts, 2));
    CHECK(lg_ycsb_inserts_done(inserts) == 0);
    CHECK(lg_ycsb_inserts_acknowledge(inserts, 0));
    CHECK(lg_ycsb_inserts_done(inserts) == 3);
    CHECK(lg_ycsb_inserts_acknowledge(inserts, 4));
    CHECK(!lg_ycsb_inserts_acknowledge(inserts, 4 + YCSB_INSERT_WINDOW)); /* once around */
    CHECK(lg_ycsb_inserts_acknowledge(inserts, 3));
    CHECK(lg_ycsb_inserts_done(inserts) == 5);
    lg_ycsb_inserts_close(inserts);
}

static void *insert_many(void *argument)
{
    struct lg_ycsb_inserts *inserts = argument;

    for (int i = 0; i < 100000; i++)
        CHECK(lg_ycsb_inserts_acknowledge(inserts, lg_ycsb_inserts_begin(inserts)));
    return NULL;
}

TEST(inserts_of_many_threads_all_count)
{
    struct tb_error error = {""};
    struct lg_ycsb_inserts *inserts = lg_ycsb_inserts_open(NULL, &error);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, insert_many, inserts);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(lg_ycsb_inserts_done(inserts) == 400000);
    lg_ycsb_inserts_close(inserts);
}

TEST(processes_share_a_file)
{
    char path[] = "/tmp/loadgen-shared-XXXXXX";
    struct tb_error error = {""};
    int file = mkstemp(path);
    struct lg_ycsb_inserts *one = lg_ycsb_inserts_open(path, &error);
    struct lg_ycsb_inserts *other = lg_ycsb_inserts_open(path, &error);

    CHECK(file >= 0 && one && other && one != other);
    CHECK(lg_ycsb_inserts_begin(one) == 0 && lg_ycsb_inserts_begin(other) == 1);
    CHECK(lg_ycsb_inserts_acknowledge(other, 1) && lg_ycsb_inserts_done(one) == 0);
    CHECK(lg_ycsb_inserts_acknowledge(one, 0) && lg_ycsb_inserts_done(other) == 2);
    lg_ycsb_inserts_close(one);
    lg_ycsb_inserts_close(other);
    remove(path);
    CHECK(!lg_ycsb_inserts_open("/no/such/file", &error));
    CHECK_TEXT(error.text, "shared /no/such/file: No such file or directory");
}

int main(void)
{
    return checks_failed();
}

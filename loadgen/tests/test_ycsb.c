/* The parts of YCSB that need no engine: generators, keys, inserts, values, records. */
#include "../record.h"
#include "../support.h"
#include "../ycsb/counts.h"
#include "../ycsb/keys.h"
#include "../ycsb/values.h"
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- generators ---------------------------------------------------------------- */

static double naive_zeta(int64_t first, int64_t last)
{
    double sum = 0;

    for (int64_t i = first; i <= last; i++)
        sum += 1 / pow((double)i, 0.99);
    return sum;
}

static void zeta_is_the_sum_it_stands_for(void)
{
    static const int64_t ends[][2] = {{1, 1},      {1, 2},       {1, 999},     {1, 1000},
                                      {1, 1001},   {1, 200000},  {500, 1700},  {1001, 1001},
                                      {1001, 1018}, {77777, 78000}, {77777, 77780}};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        double sum = naive_zeta(ends[i][0], ends[i][1]);

        CHECK_CASE(fabs(lg_ycsb_zeta(ends[i][0], ends[i][1]) - sum) <= 1e-11 * sum, i);
    }
    /* ScrambledZipfianGenerator.ZETAN, added up term by term over 10^10 items. */
    CHECK(fabs(lg_ycsb_zeta(1, INT64_C(10000000000)) - 26.46902820178302) < 1e-7);
}

static void a_zipfian_that_grows_is_one_that_was_larger(void)
{
    struct lg_ycsb_zipfian grown, larger;

    lg_ycsb_zipfian_open(&grown, 0, 99);
    lg_ycsb_zipfian_open(&larger, 0, 9999);
    for (int64_t items = 101; items <= 10000; items += 1 + items / 7)
        lg_ycsb_zipfian_grow(&grown, items);
    lg_ycsb_zipfian_grow(&grown, 10000);
    lg_ycsb_zipfian_grow(&grown, 5); /* never fewer */
    CHECK(grown.counted == 10000);
    CHECK(fabs(grown.zetan - larger.zetan) < 1e-10);
}

/* Frequencies of the first ranks against 1 / (rank^0.99 zeta). */
static void the_first_ranks_have_their_share(void)
{
    enum { ITEMS = 1000, DRAWS = 2000000 };
    struct lg_ycsb_zipfian zipfian;
    struct lg_random random;
    static int64_t counts[ITEMS];

    lg_ycsb_zipfian_open(&zipfian, 0, ITEMS - 1);
    lg_random_seed(&random, 3, 3);
    for (int i = 0; i < DRAWS; i++) {
        int64_t rank = lg_ycsb_zipfian_at(&zipfian, ITEMS, lg_ycsb_uniform(&random));

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
static void ranks_are_those_of_the_formula(void)
{
    struct lg_ycsb_zipfian zipfian;
    struct lg_random random;
    double alpha = 1.0 / (1.0 - 0.99);

    lg_ycsb_zipfian_open_scrambled(&zipfian);
    lg_random_seed(&random, 5, 5);
    for (int i = 0; i < 100000; i++) {
        double u = lg_ycsb_uniform(&random), uz = u * zipfian.zetan;
        double rank = 10000000001.0 * pow(zipfian.eta * u - zipfian.eta + 1, alpha);
        int64_t found = lg_ycsb_zipfian_at(&zipfian, zipfian.items, u);

        if (uz < 1)
            CHECK(found == 0);
        else if (uz < 1 + pow(0.5, 0.99))
            CHECK(found == 1);
        else
            CHECK(found <= rank * (1 + 1e-12) && found + 1 >= rank * (1 - 1e-12));
    }
}

/* Read and done with: the text of `update`, which would be the document's, is not used here. */
static struct lg_ycsb_params params_of(const char *text)
{
    struct lg_error error = {""};
    struct lg_ycsb_params params;
    json_t *given = json_loads(text, 0, NULL);

    CHECK(given != NULL);
    CHECK(lg_ycsb_params_read(&params, given, &error));
    CHECK_TEXT(error.text, "");
    json_decref(given);
    return params;
}

static void keys_are_the_official_ones(void)
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

static void numbers_of_every_length_are_written(void)
{
    struct lg_ycsb_params hashed = params_of("{\"recordcount\": 1}");
    struct lg_ycsb_params ordered = params_of("{\"recordcount\": 1, \"insertorder\": \"ordered\"}");
    struct lg_random random;

    lg_random_seed(&random, 8, 8);
    for (int i = 0; i < 100000; i++) {
        uint64_t number = lg_random_next(&random) >> (1 + i % 63);
        char key[YCSB_KEY_BYTES + 1], expected[64];

        key[lg_ycsb_key(&ordered, (int64_t)number, key)] = '\0';
        snprintf(expected, sizeof expected, "user%" PRIu64, number);
        CHECK_TEXT(key, expected);
        key[lg_ycsb_key(&hashed, (int64_t)number, key)] = '\0';
        snprintf(expected, sizeof expected, "user%" PRIu64, lg_ycsb_fnv(number));
        CHECK_TEXT(key, expected);
    }
}

/* ---- which record -------------------------------------------------------------- */

enum { RECORDS = 1000, DRAWS = 200000 };

/* How often each record is drawn. */
static void draw_keys(const char *text, int64_t inserts, int64_t *counts)
{
    struct lg_ycsb_params params = params_of(text);
    struct lg_error error = {""};
    struct lg_ycsb_inserts *inserted = lg_ycsb_inserts_open(NULL, &error);
    struct lg_ycsb_keys keys;
    struct lg_ycsb_chooser chooser;
    struct lg_random random;

    lg_ycsb_keys_open(&keys, &params, inserted);
    lg_ycsb_chooser_open(&chooser, &keys);
    lg_random_seed(&random, 11, 0);
    for (int64_t i = 0; i < inserts; i++)
        CHECK(lg_ycsb_inserts_acknowledge(inserted, lg_ycsb_inserts_begin(inserted)));
    lg_ycsb_inserts_begin(inserted); /* one that nobody may ask for yet */
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

static void records_are_drawn_as_their_distribution_says(void)
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
    CHECK(about(counts[1499], 1 / lg_ycsb_zeta(1, 1499)));
    CHECK(sum_of(counts, 1000, 1499) > DRAWS / 2);
}

/* The hottest ranks, scrambled: where the official formula puts them. */
static void scrambled_ranks_are_where_their_hash_is(void)
{
    static int64_t counts[2 * RECORDS];
    double share[RECORDS] = {0}, zeta = 26.46902820178302;

    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"zipfian\"}", 0, counts);
    for (uint64_t rank = 0; rank < 2; rank++) /* room for one more than there are: drawn again */
        share[lg_ycsb_fnv(rank) % 1001] += pow((double)rank + 1, -0.99) / zeta;
    for (int i = 0; i < RECORDS; i++)
        if (share[i] > 0)
            CHECK_CASE((double)counts[i] > DRAWS * share[i], i);
    /* With room for twice as many, half of all draws are drawn again; nothing is out of range. */
    draw_keys("{\"recordcount\": 1000, \"requestdistribution\": \"zipfian\", "
              "\"insertproportion\": 0.5, \"operationcount\": 1000}", 300, counts);
    CHECK(sum_of(counts, 1000, 1299) > 0);
}

/* ---- inserts ------------------------------------------------------------------- */

static void an_insert_counts_when_all_before_it_do(void)
{
    struct lg_error error = {""};
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

static void inserts_of_many_threads_all_count(void)
{
    struct lg_error error = {""};
    struct lg_ycsb_inserts *inserts = lg_ycsb_inserts_open(NULL, &error);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, insert_many, inserts);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(lg_ycsb_inserts_done(inserts) == 400000);
    lg_ycsb_inserts_close(inserts);
}

static void processes_share_a_file(void)
{
    char path[] = "/tmp/loadgen-shared-XXXXXX";
    struct lg_error error = {""};
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

/* ---- values -------------------------------------------------------------------- */

static const char *const shapes[] = {
    "{\"recordcount\": 1, \"fieldlength\": 1}",
    "{\"recordcount\": 1, \"fieldlength\": 7}",
    "{\"recordcount\": 1, \"fieldlength\": 8}",
    "{\"recordcount\": 1, \"fieldlength\": 13}",
    "{\"recordcount\": 1, \"fieldlength\": 100}",
    "{\"recordcount\": 1, \"fieldlength\": 1023}",
    "{\"recordcount\": 1, \"fieldlength\": 50, \"fieldlengthdistribution\": \"uniform\"}",
    "{\"recordcount\": 1, \"fieldlength\": 90, \"minfieldlength\": 20, "
    "\"fieldlengthdistribution\": \"zipfian\"}",
};

static void values_are_told_from_all_others(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct lg_ycsb_params params = params_of(shapes[i]);
        struct lg_ycsb_values values;

        lg_ycsb_values_open(&values, &params);

        uint64_t key = lg_ycsb_key_hash(&values, "user1", 5), other, found;

        other = lg_ycsb_key_hash(&values, "user2", 5);
        for (uint64_t version = 0; version < (UINT64_C(1) << 47); version = version * 5 + 1) {
            struct lg_ycsb_stamp stamp = lg_ycsb_stamp(key, version);
            char text[1100];
            size_t length = lg_ycsb_value(&values, &stamp, 3, text);

            CHECK_CASE(length <= (size_t)params.fieldlength, i);
            CHECK_CASE(lg_ycsb_value_fits(&values, key, 3, text, length, &found), i);
            for (size_t c = 0; c < length; c++)
                CHECK_CASE(text[c] >= '0' && text[c] <= 'p' && text[c] != '\\', i);
            if (params.field_length == YCSB_CONSTANT)
                CHECK_CASE(!lg_ycsb_value_fits(&values, key, 3, text, length + 1, &found), i);
            if (length < YCSB_VERSION_BYTES)
                CHECK_CASE(found == (version & ((UINT64_C(1) << 6 * length) - 1)), i);
            if (length < 16) /* of a short one there is less to tell it by */
                continue;
            CHECK_CASE(lg_ycsb_value_fits(&values, key, 3, text, length, &found) &&
                       found == version, i);
            CHECK_CASE(!lg_ycsb_value_fits(&values, key, 3, text, length - 1, &found), i);
            CHECK_CASE(!lg_ycsb_value_fits(&values, key, 2, text, length, &found), i);
            CHECK_CASE(!lg_ycsb_value_fits(&values, other, 3, text, length, &found), i);
            text[length - 1] ^= 1;
            CHECK_CASE(!lg_ycsb_value_fits(&values, key, 3, text, length, &found), i);
            text[length - 1] ^= 1;
            text[2] ^= 1;
            CHECK_CASE(!lg_ycsb_value_fits(&values, key, 3, text, length, &found), i);
        }
    }
}

static void lengths_fill_their_range(void)
{
    struct lg_ycsb_params params = params_of(shapes[6]);
    struct lg_ycsb_values values;
    int seen[51] = {0};

    lg_ycsb_values_open(&values, &params);
    for (uint64_t version = 0; version < 50000; version++) {
        struct lg_ycsb_stamp stamp = lg_ycsb_stamp(99, version);
        char text[128];

        seen[lg_ycsb_value(&values, &stamp, 0, text)]++;
    }
    for (int length = 1; length <= 50; length++) /* 1000 ± 31 is one standard deviation */
        CHECK_CASE(seen[length] > 800 && seen[length] < 1200, length);
}

static void another_seed_gives_other_values(void)
{
    struct lg_ycsb_params one = params_of("{\"recordcount\": 1, \"data_seed\": 1}");
    struct lg_ycsb_params two = params_of("{\"recordcount\": 1, \"data_seed\": 2}");
    struct lg_ycsb_values values, others;

    lg_ycsb_values_open(&values, &one);
    lg_ycsb_values_open(&others, &two);
    CHECK(lg_ycsb_key_hash(&values, "user1", 5) != lg_ycsb_key_hash(&others, "user1", 5));
}

/* Down to the one character that a short field has, who wrote it last can be told. */
static void versions_tell_who_wrote_last(void)
{
    uint64_t last = 0;

    for (uint64_t n = 0; n < 100000; n++) {
        uint64_t updated = lg_ycsb_updated_version(n), inserted = lg_ycsb_inserted_version(n);

        CHECK_CASE(updated > last && lg_ycsb_is_updated(updated & 63), n);
        CHECK_CASE(inserted & 63 && !lg_ycsb_is_updated(inserted & 63), n);
        last = updated;
    }
    CHECK(!lg_ycsb_is_updated(YCSB_LOADED));
}

static bool has_all(const struct lg_ycsb_updated *seen, const struct lg_ycsb_updated *wanted)
{
    for (size_t i = 0; i < YCSB_UPDATED_GROUPS; i++)
        if (seen->highest[i] < wanted->highest[i])
            return false;
    return true;
}

/* Whoever has seen all and more has all; whoever misses one in a hundred is found out. */
static void updates_that_are_missing_are_found(void)
{
    static struct lg_ycsb_updated wanted, more, fewer, part, none;

    for (uint64_t key = 1; key <= 50000; key++) {
        lg_ycsb_updated_add(&wanted, key, (int)(key % 10));
        lg_ycsb_updated_add(&more, key, (int)(key % 10));
        lg_ycsb_updated_add(&more, key, (int)((key + 1) % 10));
        lg_ycsb_updated_add(key % 2 ? &part : &none, key, (int)(key % 10));
        if (key % 100)
            lg_ycsb_updated_add(&fewer, key, (int)(key % 10));
    }
    CHECK(has_all(&wanted, &wanted) && has_all(&more, &wanted));
    CHECK(!has_all(&wanted, &more) && !has_all(&fewer, &wanted) && !has_all(&part, &wanted));
    lg_ycsb_updated_merge(&part, &none);
    CHECK(has_all(&part, &wanted) && has_all(&wanted, &part));
}

/* ---- records ------------------------------------------------------------------- */

static void records_hold_their_fields(void)
{
    struct lg_ycsb_params params = params_of("{\"recordcount\": 1, \"fieldcount\": 12, \"fieldlength\": 40}");
    struct lg_ycsb_values values;

    lg_ycsb_values_open(&values, &params);

    uint64_t key = lg_ycsb_key_hash(&values, "user1", 5);
    struct lg_ycsb_stamp loaded = lg_ycsb_stamp(key, YCSB_LOADED), later = lg_ycsb_stamp(key, 77);
    char *record = lg_allocate(lg_ycsb_record_bytes(&params), 1);
    char *change = lg_allocate(lg_ycsb_record_bytes(&params), 1);
    size_t length = lg_ycsb_record(&values, &loaded, 0, 11, record);
    size_t change_length = lg_ycsb_record(&values, &later, 11, 11, change);
    struct lg_text changed = {0};
    struct lg_field field;

    CHECK(length == 12 * (8 + 40) + 10 * 6 + 2 * 7);
    CHECK(!lg_ycsb_check_record(&values, key, record, length, NULL));
    CHECK(lg_ycsb_check_record(&values, key, record, length - 1, NULL)); /* cut */
    CHECK(lg_ycsb_check_record(&values, key, record, length - 55, NULL)); /* without its last field */
    CHECK(lg_ycsb_check_record(&values, key + 1, record, length, NULL)); /* another's */
    CHECK(lg_record_change(&changed, record, length, change, change_length));
    CHECK(changed.length == length);
    CHECK(!lg_ycsb_check_record(&values, key, changed.bytes, changed.length, NULL));
    CHECK(memcmp(changed.bytes + changed.length - 40, "0000001=", 8) == 0); /* 77 to the base 64 */
    CHECK(!lg_record_change(&changed, record, length, change, change_length - 1));
    lg_field_add(&changed, "field0", 6, "twice", 5);

    const char *at = change;

    CHECK(lg_field_next(&at, change + change_length, &field));
    CHECK(field.name_length == 7 && memcmp(field.name, "field11", 7) == 0);
    CHECK(!lg_field_next(&at, change + change_length, &field) && at == change + change_length);
    free(changed.bytes);
    free(record);
    free(change);
}

/* New fields come behind, the last of two changes stands. */
static void changes_add_fields_too(void)
{
    struct lg_text record = {0}, change = {0}, changed = {0}, expected = {0};

    lg_field_add(&record, "a", 1, "1", 1);
    lg_field_add(&record, "b", 1, "2", 1);
    lg_field_add(&change, "c", 1, "3", 1);
    lg_field_add(&change, "b", 1, "4", 1);
    lg_field_add(&change, "b", 1, "", 0);
    lg_field_add(&expected, "a", 1, "1", 1);
    lg_field_add(&expected, "b", 1, "", 0);
    lg_field_add(&expected, "c", 1, "3", 1);
    CHECK(lg_record_change(&changed, record.bytes, record.length, change.bytes, change.length));
    CHECK(changed.length == expected.length);
    CHECK(memcmp(changed.bytes, expected.bytes, expected.length) == 0);
    free(record.bytes);
    free(change.bytes);
    free(changed.bytes);
    free(expected.bytes);
}

/* ---- the rest ------------------------------------------------------------------ */

static void the_hottest_keys_are_counted_over_all_terminals(void)
{
    struct lg_ycsb_counts *counts[2] = {lg_ycsb_counts_new(), lg_ycsb_counts_new()};
    struct lg_ycsb_count hottest[3];

    for (int64_t i = 0; i < 200000; i++) { /* more keys than a table takes */
        lg_ycsb_counts_add(counts[0], i);
        lg_ycsb_counts_add(counts[1], i % 10 ? 0 : 4);
    }
    CHECK(lg_ycsb_hottest(counts, 2, hottest, 3) == 3);
    CHECK(hottest[0].key == 0 && hottest[0].times == 180001);
    CHECK(hottest[1].key == 4 && hottest[1].times == 20001);
    CHECK(hottest[2].times == 1);
    CHECK(counts[0]->draws == 200000 && counts[0]->capacity <= 1 << 16);
    lg_ycsb_counts_free(counts[0]);
    lg_ycsb_counts_free(counts[1]);
}

/* In turn over 64 keys: those that are counted by the sample are all of them, as evenly. */
static void a_sample_favours_no_key(void)
{
    enum { KEYS = 64, MORE = 1 << 20 };
    struct lg_ycsb_counts *counts = lg_ycsb_counts_new();
    struct lg_ycsb_count hottest[KEYS];
    uint64_t sampled;

    for (int64_t i = 0; i < YCSB_COUNTED_ALL + MORE; i++)
        lg_ycsb_counts_sample(counts, i % KEYS);
    sampled = counts->draws - YCSB_COUNTED_ALL;
    CHECK(fabs((double)sampled - MORE / 16.0) < 5 * sqrt(MORE / 16.0));
    CHECK(lg_ycsb_hottest(&counts, 1, hottest, KEYS) == KEYS);
    for (int i = 0; i < KEYS; i++)
        CHECK_CASE(fabs((double)hottest[i].times - (double)counts->draws / KEYS) <
                       5 * sqrt(sampled / (double)KEYS) + 1, i);
    lg_ycsb_counts_free(counts);
}

static void wrong_params_are_named(void)
{
    static const char *const cases[][2] = {
        {"{}", "workload.params.recordcount: an integer from 1 to 281474976710656 is wanted"},
        {"{\"recordcount\": 0}",
         "workload.params.recordcount: an integer from 1 to 281474976710656 is wanted"},
        {"{\"recordcount\": 1, \"recordcuont\": 1}",
         "workload.params.recordcuont: ycsb has no such parameter"},
        {"{\"recordcount\": 1, \"fieldcount\": 65}",
         "workload.params.fieldcount: an integer from 1 to 64 is wanted"},
        {"{\"recordcount\": 1, \"readproportion\": \"all\"}",
         "workload.params.readproportion: a number from 0 to 1e+09 is wanted"},
        {"{\"recordcount\": 1, \"readproportion\": 0, \"updateproportion\": 0}",
         "workload.params: no operation has a proportion above 0"},
        {"{\"recordcount\": 1, \"readallfields\": 1}",
         "workload.params.readallfields: true or false is wanted"},
        {"{\"recordcount\": 1, \"requestdistribution\": \"constant\"}",
         "workload.params.requestdistribution: there is no such distribution of it: constant"},
        {"{\"recordcount\": 5, \"insertstart\": 3, \"insertcount\": 3}",
         "workload.params.insertcount: insertstart + insertcount is more than recordcount, or "
         "there is no record"},
        {"{\"recordcount\": 1, \"insertorder\": \"random\"}",
         "workload.params.insertorder: \"hashed\" or \"ordered\" is wanted"},
        {"{\"recordcount\": 1, \"minscanlength\": 5, \"maxscanlength\": 4}",
         "workload.params.minscanlength: is more than maxscanlength"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lg_ycsb_params params;
        struct lg_error error = {""};
        json_t *given = json_loads(cases[i][0], 0, NULL);

        CHECK_CASE(!lg_ycsb_params_read(&params, given, &error), i);
        CHECK_TEXT(error.text, cases[i][1]);
        json_decref(given);
    }
}

int main(void)
{
    zeta_is_the_sum_it_stands_for();
    a_zipfian_that_grows_is_one_that_was_larger();
    the_first_ranks_have_their_share();
    ranks_are_those_of_the_formula();
    keys_are_the_official_ones();
    numbers_of_every_length_are_written();
    records_are_drawn_as_their_distribution_says();
    scrambled_ranks_are_where_their_hash_is();
    an_insert_counts_when_all_before_it_do();
    inserts_of_many_threads_all_count();
    processes_share_a_file();
    values_are_told_from_all_others();
    lengths_fill_their_range();
    another_seed_gives_other_values();
    versions_tell_who_wrote_last();
    updates_that_are_missing_are_found();
    records_hold_their_fields();
    changes_add_fields_too();
    the_hottest_keys_are_counted_over_all_terminals();
    a_sample_favours_no_key();
    wrong_params_are_named();
    return checks_failed();
}

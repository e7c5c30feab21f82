/* The parts of YCSB that need no engine: values, records, what is counted of them. */
#include "check.h"
#include "../record.h"
#include "../ycsb/keys.h"
#include "../ycsb/values.h"
#include "ycsb_params.h"

#include <math.h>

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

TEST(values_are_told_from_all_others)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct lg_ycsb_params params = params_of(shapes[i]);
        struct lg_ycsb_values values;

        lg_ycsb_values_open(&values, &params);

        uint64_t key = lg_ycsb_key_hash(&values, "user1", 5), other, found;

        other = lg_ycsb_key_hash(&values, "user2", 5);
        for (uint64_t version = 0; version < (UINT64_C(1) << 47); version = version * 5 + 1) {
            struct lg_ycsb_stamp stamp = lg_ycsb_stamp(key, version);
            char text[1100] = "";
            size_t length = lg_ycsb_value(&values, &stamp, 3, text);

            CHECK_CASE(length <= (size_t)params.fieldlength, i);
            CHECK_CASE(lg_ycsb_value_fits(&values, key, 3, text, length, &found), i);
            for (size_t c = 0; c < length; c++)
                CHECK_CASE(text[c] >= '0' && text[c] <= 'p' && text[c] != '\\', i);
            if (length < YCSB_VERSION_BYTES)
                CHECK_CASE(found == (version & ((UINT64_C(1) << 6 * length) - 1)), i);
            if (params.field_length == YCSB_CONSTANT)
                CHECK_CASE(!lg_ycsb_value_fits(&values, key, 3, text, length + 1, &found), i);
            if (length < 16) /* a short one has less to recognise it by */
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

TEST(lengths_fill_their_range)
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

TEST(another_seed_gives_other_values)
{
    struct lg_ycsb_params one = params_of("{\"recordcount\": 1, \"data_seed\": 1}");
    struct lg_ycsb_params two = params_of("{\"recordcount\": 1, \"data_seed\": 2}");
    struct lg_ycsb_values values, others;

    lg_ycsb_values_open(&values, &one);
    lg_ycsb_values_open(&others, &two);
    CHECK(lg_ycsb_key_hash(&values, "user1", 5) != lg_ycsb_key_hash(&others, "user1", 5));
}

/* Down to the one character that a short field has, who wrote it last can be recognised. */
TEST(versions_tell_who_wrote_last)
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
TEST(updates_that_are_missing_are_found)
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

TEST(records_hold_their_fields)
{
    struct lg_ycsb_params params = params_of("{\"recordcount\": 1, \"fieldcount\": 12, \"fieldlength\": 40}");
    struct lg_ycsb_values values;

    lg_ycsb_values_open(&values, &params);

    uint64_t key = lg_ycsb_key_hash(&values, "user1", 5);
    struct lg_ycsb_stamp loaded = lg_ycsb_stamp(key, YCSB_LOADED), later = lg_ycsb_stamp(key, 77);
    char *record = tb_allocate(lg_ycsb_record_bytes(&params), 1);
    char *change = tb_allocate(lg_ycsb_record_bytes(&params), 1);
    size_t length = lg_ycsb_record(&values, &loaded, 0, 11, record);
    size_t change_length = lg_ycsb_record(&values, &later, 11, 11, change);
    struct tb_text changed = {0};
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

/* New fields come after, the last of two changes stands. */
TEST(changes_add_fields_too)
{
    struct tb_text record = {0}, change = {0}, changed = {0}, expected = {0};

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

TEST(invalid_params_are_refused_by_key)
{
    static const char *const cases[][2] = {
        {"{}", "recordcount"},
        {"{\"recordcount\": 0}", "recordcount"},
        {"{\"recordcount\": 1, \"recordcuont\": 1}", "recordcuont"},
        {"{\"recordcount\": 1, \"fieldcount\": 65}", "fieldcount"},
        {"{\"recordcount\": 1, \"readproportion\": \"all\"}", "readproportion"},
        {"{\"recordcount\": 1, \"readproportion\": 0, \"updateproportion\": 0}", "*proportion"},
        {"{\"recordcount\": 1, \"readallfields\": 1}", "readallfields"},
        {"{\"recordcount\": 1, \"requestdistribution\": \"constant\"}", "requestdistribution"},
        {"{\"recordcount\": 5, \"insertstart\": 3, \"insertcount\": 3}", "insertcount"},
        {"{\"recordcount\": 1, \"insertorder\": \"random\"}", "insertorder"},
        {"{\"recordcount\": 1, \"minscanlength\": 5, \"maxscanlength\": 4}", "minscanlength"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lg_ycsb_params params;
        struct tb_error error = {""};
        json_t *given = json_loads(cases[i][0], 0, NULL);

        CHECK_CASE(!lg_ycsb_params_read(&params, given, &error), i);
        CHECK_CASE(strncmp(error.text, "workload.params.", 16) == 0, i);
        CHECK_KEY(error.text + 16, cases[i][1]);
        json_decref(given);
    }
}

int main(void)
{
    return checks_failed();
}

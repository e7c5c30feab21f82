/* See values.h. */
#include "values.h"

#include "../record.h"

#include <endian.h>

#define ODD1 UINT64_C(0x9e3779b97f4a7c15)
#define ODD2 UINT64_C(0xd1342543de82ef95)
#define ODD3 UINT64_C(0xda942042e4dd58b5)

/* 128 bits of a product, folded. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight characters out of 64 bits: the low six of each byte. */
static inline uint64_t characters(uint64_t bits)
{
    uint64_t six = bits & UINT64_C(0x3f3f3f3f3f3f3f3f);
    /* 1 in each byte that would become a backslash (0x5c - '0' = 0x2c); no carry between bytes. */
    uint64_t other = (six ^ UINT64_C(0x2c2c2c2c2c2c2c2c)) + UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t escaped = ~other >> 7 & UINT64_C(0x0101010101010101);

    return six + UINT64_C(0x3030303030303030) + escaped * ('p' - '\\');
}

static bool digit_of(char c, uint64_t *digit)
{
    *digit = c == 'p' ? '\\' - '0' : (uint64_t)(c - '0');
    return c >= '0' && c <= 'p' && c != '\\';
}

void lg_ycsb_values_open(struct lg_ycsb_values *values, const struct lg_ycsb_params *params)
{
    *values = (struct lg_ycsb_values){.params = params,
                                      .seed = tb_mix((uint64_t)params->data_seed + ODD1)};
    if (params->field_length == YCSB_ZIPFIAN)
        tb_zipfian_open(&values->lengths, params->minfieldlength, params->fieldlength);
    for (int i = 0; i < params->fieldcount; i++)
        values->names[i].length = (size_t)snprintf(values->names[i].name,
                                                   sizeof values->names[i].name, "field%d", i);
}

uint64_t lg_ycsb_key_hash(const struct lg_ycsb_values *values, const char *key, size_t length)
{
    uint64_t hash = values->seed ^ length * ODD2, word;
    size_t at = 0;

    for (; at + sizeof word <= length; at += sizeof word) {
        memcpy(&word, key + at, sizeof word);
        hash = fold(hash ^ le64toh(word), ODD1) + ODD3;
    }
    word = 0;
    memcpy(&word, key + at, length - at);
    return tb_mix(fold(hash ^ le64toh(word), ODD2));
}

struct lg_ycsb_stamp lg_ycsb_stamp(uint64_t key_hash, uint64_t version)
{
    struct lg_ycsb_stamp stamp = {.key = key_hash, .version = version};
    uint64_t spread = 0, text;

    for (int i = 0; i < YCSB_VERSION_BYTES; i++) /* the highest digit first */
        spread = spread << 8 | (version >> (6 * (YCSB_VERSION_BYTES - 1 - i)) & 0x3f);
    text = htobe64(characters(spread));
    memcpy(stamp.text, &text, sizeof text);
    return stamp;
}

/* What the text of one field, and its length, come from. */
static inline uint64_t source_of(uint64_t key_hash, int field, uint64_t version)
{
    return tb_mix(key_hash + (uint64_t)field * ODD2 + version * ODD3);
}

static size_t length_of(const struct lg_ycsb_values *values, uint64_t source)
{
    const struct lg_ycsb_params *params = values->params;
    uint64_t drawn, range = (uint64_t)(params->fieldlength - params->minfieldlength) + 1;
    int64_t length;

    if (params->field_length == YCSB_CONSTANT)
        return (size_t)params->fieldlength;
    drawn = tb_mix(source ^ ODD1);
    if (params->field_length == YCSB_UNIFORM)
        return (size_t)params->minfieldlength +
               (size_t)((unsigned __int128)drawn * range >> 64);
    length = tb_zipfian_at(&values->lengths, values->lengths.items,
                                (double)(drawn >> 11) * 0x1p-53);
    return (size_t)(length < params->fieldlength ? length : params->fieldlength);
}

/* The eight characters at this place. The source is mixed well already: one round will do. */
static inline uint64_t piece(uint64_t source, size_t place)
{
    uint64_t z = source + place * ODD1;

    z = (z ^ (z >> 32)) * ODD2;
    return htole64(characters(z ^ (z >> 29)));
}

/* Whether a value from place `at` on is what comes from the source. */
static bool same(uint64_t source, const char *text, size_t at, size_t length)
{
    uint64_t differs = 0, eight, last;

    for (; at + sizeof eight <= length; at += sizeof eight) {
        memcpy(&eight, text + at, sizeof eight);
        differs |= eight ^ piece(source, at);
    }
    if (differs)
        return false;
    last = piece(source, at);
    return memcmp(text + at, &last, length - at) == 0;
}

size_t lg_ycsb_value(const struct lg_ycsb_values *values, const struct lg_ycsb_stamp *stamp,
                     int field, char *to)
{
    uint64_t source = source_of(stamp->key, field, stamp->version), eight;
    size_t length = length_of(values, source), at = YCSB_VERSION_BYTES;

    if (length < YCSB_VERSION_BYTES) /* the low digits are those that change */
        memcpy(to, stamp->text + YCSB_VERSION_BYTES - length, length);
    else
        memcpy(to, stamp->text, YCSB_VERSION_BYTES);
    for (; at < length; at += sizeof eight) {
        eight = piece(source, at);
        memcpy(to + at, &eight, sizeof eight);
    }
    return length;
}

bool lg_ycsb_value_fits(const struct lg_ycsb_values *values, uint64_t key_hash, int field,
                        const char *text, size_t length, uint64_t *version)
{
    const struct lg_ycsb_params *params = values->params;
    uint64_t digit, source;
    size_t at = 0;

    *version = 0;
    for (; at < length && at < YCSB_VERSION_BYTES; at++) {
        if (!digit_of(text[at], &digit))
            return false;
        *version = *version << 6 | digit;
    }
    if (length < YCSB_VERSION_BYTES)
        return params->field_length == YCSB_CONSTANT
                   ? length == (size_t)params->fieldlength
                   : length >= (size_t)params->minfieldlength;
    source = source_of(key_hash, field, *version);
    return length == length_of(values, source) && same(source, text, at, length);
}

size_t lg_ycsb_record_bytes(const struct lg_ycsb_params *params)
{
    /* Two lengths, a name, a value. */
    return (size_t)params->fieldcount * (4 + 7 + 4 + (size_t)params->fieldlength) +
           YCSB_VALUE_SLACK;
}

static char *put_length(char *to, size_t length)
{
    uint32_t big = htobe32((uint32_t)length);

    memcpy(to, &big, sizeof big);
    return to + sizeof big;
}

size_t lg_ycsb_record(const struct lg_ycsb_values *values, const struct lg_ycsb_stamp *stamp,
                      int first, int last, char *to)
{
    char *at = to;

    for (int i = first; i <= last; i++) {
        size_t name = values->names[i].length, length;

        at = put_length(at, name);
        memcpy(at, values->names[i].name, sizeof values->names[i].name);
        at += name;
        length = lg_ycsb_value(values, stamp, i, at + sizeof(uint32_t));
        at = put_length(at, length) + length;
    }
    return (size_t)(at - to);
}

static void note(struct lg_ycsb_seen *seen, uint64_t key_hash, int field, uint64_t version)
{
    if (!seen || !lg_ycsb_is_updated(version))
        return;
    seen->count++;
    lg_ycsb_updated_add(seen->updated, key_hash, field);
}

static const char *check_cells(const struct lg_ycsb_values *values, uint64_t key_hash,
                               const struct lg_cell *cells, size_t count, int one,
                               struct lg_ycsb_seen *seen)
{
    uint64_t version;

    if (count != (one < 0 ? (size_t)values->params->fieldcount : 1))
        return "it has another number of fields than it was written with";
    for (size_t i = 0; i < count; i++) {
        int field = one < 0 ? (int)i : one;

        if (!cells[i].text)
            return "a field of it is NULL";
        if (!lg_ycsb_value_fits(values, key_hash, field, cells[i].text, cells[i].length,
                                &version))
            return "a field of it is not as it was ever written under this key";
        note(seen, key_hash, field, version);
    }
    return NULL;
}

/* Its place among the fields; -1 where it is none of them. */
static int number_of(const struct lg_ycsb_values *values, const struct lg_field *field, int likely)
{
    for (int tried = 0; tried < values->params->fieldcount; tried++) {
        int i = (likely + tried) % (int)values->params->fieldcount;

        if (values->names[i].length == field->name_length &&
            memcmp(values->names[i].name, field->name, field->name_length) == 0)
            return i;
    }
    return -1;
}

const char *lg_ycsb_check_record(const struct lg_ycsb_values *values, uint64_t key_hash,
                                 const char *record, size_t length,
                                 struct lg_ycsb_seen *seen)
{
    const char *at = record, *end = record + length;
    uint64_t had = 0, version;
    struct lg_field field;
    int count = 0;

    for (; lg_field_next(&at, end, &field); count++) {
        int number = number_of(values, &field, count);

        if (number < 0 || had >> number & 1)
            return "it has a field that does not belong to it, or has one twice";
        had |= UINT64_C(1) << number;
        if (!lg_ycsb_value_fits(values, key_hash, number, field.value, field.value_length,
                                &version))
            return "a field of it is not as it was ever written under this key";
        note(seen, key_hash, number, version);
    }
    if (at != end)
        return "it ends within a field";
    if (count != values->params->fieldcount)
        return "it has another number of fields than it was written with";
    return NULL;
}

const char *lg_ycsb_check(const struct lg_ycsb_values *values, uint64_t key_hash,
                          const struct lg_cell *cells, size_t count, int one,
                          struct lg_ycsb_seen *seen)
{
    if (!values->key_value)
        return check_cells(values, key_hash, cells, count, one, seen);
    return count == 1
               ? lg_ycsb_check_record(values, key_hash, cells[0].text, cells[0].length, seen)
               : "it is not one record";
}

int lg_ycsb_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);

    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* ---- updated fields ------------------------------------------------------------ */

void lg_ycsb_updated_add(struct lg_ycsb_updated *updated, uint64_t key_hash, int field)
{
    uint64_t hash = tb_mix(key_hash + (uint64_t)(field + 1) * UINT64_C(0x9e3779b97f4a7c15));
    int64_t *group = &updated->highest[hash % YCSB_UPDATED_GROUPS];

    if ((int64_t)(hash >> 1) > *group)
        *group = (int64_t)(hash >> 1);
}

void lg_ycsb_updated_merge(struct lg_ycsb_updated *to, const struct lg_ycsb_updated *from)
{
    for (size_t i = 0; i < YCSB_UPDATED_GROUPS; i++)
        if (from->highest[i] > to->highest[i])
            to->highest[i] = from->highest[i];
}

json_t *lg_ycsb_updated_json(const struct lg_ycsb_updated *updated)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < YCSB_UPDATED_GROUPS; i++)
        json_array_append_new(groups, json_integer((json_int_t)updated->highest[i]));
    return groups;
}

/* See params.h: one table for each type of value, then what must hold between them. */
#include "params.h"

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* More records would not be addressed by any engine here, and an int64_t never overflows. */
#define MOST (INT64_C(1) << 48)
/* Stands for a default that depends on others. */
#define DERIVED INT64_C(-1)

const char *const lg_ycsb_operation_names[YCSB_OPERATIONS] = {
    [YCSB_READ] = "read",
    [YCSB_UPDATE] = "update",
    [YCSB_INSERT] = "insert",
    [YCSB_SCAN] = "scan",
    [YCSB_READ_MODIFY_WRITE] = "read_modify_write",
};

static const char *const distribution_names[] = {
    [YCSB_CONSTANT] = "constant", [YCSB_UNIFORM] = "uniform",       [YCSB_ZIPFIAN] = "zipfian",
    [YCSB_LATEST] = "latest",     [YCSB_HOTSPOT] = "hotspot",       [YCSB_SEQUENTIAL] = "sequential",
    [YCSB_EXPONENTIAL] = "exponential",
};

#define OF(member) offsetof(struct lg_ycsb_params, member)

static const struct integer {
    const char *name;
    int64_t least, most, fallback;
    size_t offset;
} integers[] = {
    {"recordcount", 1, MOST, TB_REQUIRED, OF(recordcount)},
    {"operationcount", 0, MOST, 0, OF(operationcount)},
    {"insertstart", 0, MOST, 0, OF(insertstart)},
    {"insertcount", 1, MOST, DERIVED, OF(insertcount)},
    {"expectednewkeys", 0, MOST, DERIVED, OF(expectednewkeys)},
    {"fieldcount", 1, YCSB_MAX_FIELDS, 10, OF(fieldcount)},
    {"fieldlength", 1, YCSB_MAX_FIELD_BYTES, 100, OF(fieldlength)},
    {"minfieldlength", 1, YCSB_MAX_FIELD_BYTES, 1, OF(minfieldlength)},
    {"minscanlength", 1, 1000000, 1, OF(minscanlength)},
    {"maxscanlength", 1, 1000000, 1000, OF(maxscanlength)},
    {"zeropadding", 0, YCSB_MAX_PADDING, 1, OF(zeropadding)},
    {"data_seed", 0, INT64_MAX, 0, OF(data_seed)},
    {"count_keys", 0, 100000, 0, OF(count_keys)},
    {"inserted", 0, MOST, 0, OF(inserted)},
    {"inserts_begun", 0, MOST, 0, OF(inserts_begun)},
};

static const struct fraction {
    const char *name;
    double most, fallback;
    size_t offset;
} fractions[] = {
    {"readproportion", 1e9, 0.95, OF(proportions[YCSB_READ])},
    {"updateproportion", 1e9, 0.05, OF(proportions[YCSB_UPDATE])},
    {"insertproportion", 1e9, 0, OF(proportions[YCSB_INSERT])},
    {"scanproportion", 1e9, 0, OF(proportions[YCSB_SCAN])},
    {"readmodifywriteproportion", 1e9, 0, OF(proportions[YCSB_READ_MODIFY_WRITE])},
    {"hotspotdatafraction", 1, 0.2, OF(hotspot_data)},
    {"hotspotopnfraction", 1, 0.8, OF(hotspot_operations)},
    {"exponential.percentile", 99.999999, 95, OF(exponential_percentile)},
    {"exponential.frac", 1e9, 0.8571428571, OF(exponential_fraction)},
};

static const struct flag {
    const char *name;
    bool fallback;
    size_t offset;
} flags[] = {
    {"readallfields", true, OF(readallfields)},
    {"writeallfields", false, OF(writeallfields)},
    {"verify_reads", false, OF(verify_reads)},
};

/* The distributions that a property may name, a bit each. */
#define BIT(distribution) (1u << (distribution))
static const struct choice {
    const char *name;
    enum lg_ycsb_distribution fallback;
    unsigned allowed;
    size_t offset;
} choices[] = {
    {"requestdistribution", YCSB_UNIFORM,
     BIT(YCSB_UNIFORM) | BIT(YCSB_ZIPFIAN) | BIT(YCSB_LATEST) | BIT(YCSB_HOTSPOT) |
         BIT(YCSB_SEQUENTIAL) | BIT(YCSB_EXPONENTIAL),
     OF(request)},
    {"fieldlengthdistribution", YCSB_CONSTANT,
     BIT(YCSB_CONSTANT) | BIT(YCSB_UNIFORM) | BIT(YCSB_ZIPFIAN), OF(field_length)},
    {"scanlengthdistribution", YCSB_UNIFORM, BIT(YCSB_UNIFORM) | BIT(YCSB_ZIPFIAN),
     OF(scan_length)},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool read_choice(const json_t *params, const struct choice *choice,
                        enum lg_ycsb_distribution *value, struct tb_error *error)
{
    const json_t *given = json_object_get(params, choice->name);
    const char *word = json_string_value(given);

    *value = choice->fallback;
    if (!given)
        return true;
    for (unsigned i = 0; word && i < COUNT(distribution_names); i++) {
        if (choice->allowed & BIT(i) && strcmp(word, distribution_names[i]) == 0) {
            *value = (enum lg_ycsb_distribution)i;
            return true;
        }
    }
    tb_fail(error, "%s: no such distribution: %s", choice->name,
            word ? word : "not a string");
    return false;
}

static bool read_tables(struct lg_ycsb_params *read, const json_t *params, struct tb_error *error)
{
    char *base = (char *)read;

    for (size_t i = 0; i < COUNT(integers); i++)
        if (!tb_read_integer(params, integers[i].name, integers[i].least, integers[i].most,
                             integers[i].fallback, (int64_t *)(base + integers[i].offset), error))
            return false;
    for (size_t i = 0; i < COUNT(fractions); i++)
        if (!tb_read_number(params, fractions[i].name, 0, fractions[i].most, fractions[i].fallback,
                            (double *)(base + fractions[i].offset), error))
            return false;
    for (size_t i = 0; i < COUNT(flags); i++)
        if (!tb_read_flag(params, flags[i].name, flags[i].fallback,
                          (bool *)(base + flags[i].offset), error))
            return false;
    for (size_t i = 0; i < COUNT(choices); i++)
        if (!read_choice(params, &choices[i],
                         (enum lg_ycsb_distribution *)(base + choices[i].offset), error))
            return false;
    return true;
}

static bool read_words(struct lg_ycsb_params *read, const json_t *params, struct tb_error *error)
{
    static const char *const orders[] = {"hashed", "ordered", NULL};
    const json_t *update = json_object_get(params, "update");
    int order;

    if (!tb_read_word(params, "insertorder", orders, 0, &order, error))
        return false;
    read->ordered = order == 1;
    read->update = json_string_value(update);
    if (update && !read->update)
        tb_fail(error, "update: must be a string");
    return !update || read->update;
}

static bool only_known(const json_t *params, struct tb_error *error)
{
    enum { ALL = COUNT(integers) + COUNT(fractions) + COUNT(flags) + COUNT(choices) };
    static const char *const words[] = {"insertorder", "update", NULL};
    const char *known[ALL + 1] = {NULL};
    size_t n = 0;

    for (size_t i = 0; i < COUNT(integers); i++)
        known[n++] = integers[i].name;
    for (size_t i = 0; i < COUNT(fractions); i++)
        known[n++] = fractions[i].name;
    for (size_t i = 0; i < COUNT(flags); i++)
        known[n++] = flags[i].name;
    for (size_t i = 0; i < COUNT(choices); i++)
        known[n++] = choices[i].name;
    return tb_only_keys(params, known, words, error);
}

static void derive(struct lg_ycsb_params *read)
{
    /* 2 is the official core's "fudge factor" for the inserts that may come. */
    double new_keys = (double)read->operationcount * read->proportions[YCSB_INSERT] * 2.0;

    if (read->insertcount == DERIVED)
        read->insertcount = read->recordcount - read->insertstart;
    if (read->expectednewkeys == DERIVED)
        read->expectednewkeys = new_keys < (double)MOST ? (int64_t)new_keys : MOST;
    if (read->inserts_begun < read->inserted)
        read->inserts_begun = read->inserted;
}

static bool agrees(const struct lg_ycsb_params *read, struct tb_error *error)
{
    double total = 0;

    for (int i = 0; i < YCSB_OPERATIONS; i++)
        total += read->proportions[i];
    if (read->insertcount < 1 || read->insertstart + read->insertcount > read->recordcount)
        tb_fail(error, "insertcount: insertstart + insertcount is more than recordcount, or 0");
    else if (!(total > 0))
        tb_fail(error, "*proportion: no operation has a proportion above 0");
    else if (read->field_length != YCSB_CONSTANT && read->minfieldlength > read->fieldlength)
        tb_fail(error, "minfieldlength: must be <= fieldlength");
    else if (read->minscanlength > read->maxscanlength)
        tb_fail(error, "minscanlength: must be <= maxscanlength");
    else if (!(read->exponential_percentile > 0 && read->exponential_fraction > 0))
        tb_fail(error, "exponential.percentile, .frac: must be > 0");
    else
        return true;
    return false;
}

bool lg_ycsb_params_read(struct lg_ycsb_params *read, const json_t *params,
                         struct tb_error *error)
{
    *read = (struct lg_ycsb_params){0};
    if (!only_known(params, error) || !read_tables(read, params, error) ||
        !read_words(read, params, error))
        return tb_fail_within(error, "workload.params.");
    derive(read);
    return agrees(read, error) || tb_fail_within(error, "workload.params.");
}

/* See params.h: a table of keys, then what must hold between them. */
#include "params.h"

/* More records would not be addressed by any engine here, and an int64_t never overflows. */
#define MOST (INT64_C(1) << 48)
/* Stands for a default that depends on others. */
#define DERIVED INT64_C(-1)

static const char *const orders[] = {"hashed", "ordered", NULL};
static const char *const request_distributions[] = {"uniform", "zipfian",    "latest",     "hotspot",
                                                    "sequential", "exponential", NULL};
static const char *const length_distributions[] = {"constant", "uniform", "zipfian", NULL};
static const char *const scan_distributions[] = {"uniform", "zipfian", NULL};

#define INTEGER(member, least, most, fallback) \
    TB_INTEGER_KEY(struct lg_ycsb_params, #member, member, least, most, fallback)
#define NUMBER(key, member, highest, fallback) \
    TB_NUMBER_KEY(struct lg_ycsb_params, key, member, 0, highest, fallback)
#define FLAG(member, fallback) TB_FLAG_KEY(struct lg_ycsb_params, #member, member, fallback)
#define WORD(key, member, words, first) \
    TB_WORD_KEY(struct lg_ycsb_params, key, member, words, first, 0)

static const struct tb_param keys[] = {
    INTEGER(recordcount, 1, MOST, TB_REQUIRED),
    INTEGER(operationcount, 0, MOST, 0),
    INTEGER(insertstart, 0, MOST, 0),
    INTEGER(insertcount, 1, MOST, DERIVED),
    INTEGER(fieldcount, 1, YCSB_MAX_FIELDS, 10),
    INTEGER(fieldlength, 1, YCSB_MAX_FIELD_BYTES, 100),
    INTEGER(minfieldlength, 1, YCSB_MAX_FIELD_BYTES, 1),
    INTEGER(minscanlength, 1, 1000000, 1),
    INTEGER(maxscanlength, 1, 1000000, 1000),
    INTEGER(zeropadding, 0, YCSB_MAX_PADDING, 1),
    INTEGER(data_seed, 0, INT64_MAX, 0),
    INTEGER(inserted, 0, MOST, 0),
    INTEGER(inserts_begun, 0, MOST, 0),
    NUMBER("readproportion", proportions[YCSB_READ], 1e9, 0.95),
    NUMBER("updateproportion", proportions[YCSB_UPDATE], 1e9, 0.05),
    NUMBER("insertproportion", proportions[YCSB_INSERT], 1e9, 0),
    NUMBER("scanproportion", proportions[YCSB_SCAN], 1e9, 0),
    NUMBER("readmodifywriteproportion", proportions[YCSB_READ_MODIFY_WRITE], 1e9, 0),
    NUMBER("hotspotdatafraction", hotspot_data, 1, 0.2),
    NUMBER("hotspotopnfraction", hotspot_operations, 1, 0.8),
    NUMBER("exponential.percentile", exponential_percentile, 99.999999, 95),
    NUMBER("exponential.frac", exponential_fraction, 1e9, 0.8571428571),
    FLAG(readallfields, true),
    FLAG(writeallfields, false),
    FLAG(verify_reads, false),
    WORD("insertorder", ordered, orders, 0),
    WORD("requestdistribution", request, request_distributions, YCSB_UNIFORM),
    WORD("fieldlengthdistribution", field_length, length_distributions, YCSB_CONSTANT),
    WORD("scanlengthdistribution", scan_length, scan_distributions, YCSB_UNIFORM),
    TB_OTHER_KEY("update"),
    {0},
};

static bool read_update(struct lg_ycsb_params *read, const json_t *params, struct tb_error *error)
{
    const json_t *update = json_object_get(params, "update");

    read->update = json_string_value(update);
    return !update || read->update || tb_fail(error, "update: must be a string");
}

static void derive(struct lg_ycsb_params *read)
{
    /* 2 is the official core's "fudge factor" for the inserts that may come. */
    double new_keys = (double)read->operationcount * read->proportions[YCSB_INSERT] * 2.0;

    if (read->insertcount == DERIVED)
        read->insertcount = read->recordcount - read->insertstart;
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
    if (!tb_params_known(keys, NULL, params, error) ||
        !tb_params_read(keys, params, read, error) ||
        !read_update(read, params, error))
        return tb_fail_within(error, "workload.params.");
    derive(read);
    return agrees(read, error) || tb_fail_within(error, "workload.params.");
}

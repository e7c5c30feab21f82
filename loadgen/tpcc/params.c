/* The spec's workload.params for TPC-C: see params.h. */
#include "params.h"

#include <math.h>
#include <string.h>

const char *const lg_tpcc_transaction_names[TPCC_TRANSACTIONS] = {
    [TPCC_NEW_ORDER] = "new_order",       [TPCC_PAYMENT] = "payment",
    [TPCC_ORDER_STATUS] = "order_status", [TPCC_DELIVERY] = "delivery",
    [TPCC_STOCK_LEVEL] = "stock_level",
};

static bool read_integer(const json_t *params, const char *key, int64_t low, int64_t high,
                         int64_t *value, struct lg_error *error)
{
    const json_t *given = json_object_get(params, key);

    if (!json_is_integer(given) || json_integer_value(given) < low ||
        json_integer_value(given) > high) {
        lg_fail(error, "workload.params.%s: an integer from %lld to %lld is wanted", key,
                (long long)low, (long long)high);
        return false;
    }
    *value = json_integer_value(given);
    return true;
}

/* One of two words; `second` says which. The first where nothing is given. */
static bool read_word(const json_t *params, const char *key, const char *first_word,
                      const char *second_word, bool *second, struct lg_error *error)
{
    const json_t *given = json_object_get(params, key);
    const char *word = given ? json_string_value(given) : first_word;

    if (!word || (strcmp(word, first_word) != 0 && strcmp(word, second_word) != 0)) {
        lg_fail(error, "workload.params.%s: \"%s\" or \"%s\" is wanted", key, first_word,
                second_word);
        return false;
    }
    *second = strcmp(word, second_word) == 0;
    return true;
}

static int transaction_of(const char *name)
{
    for (int i = 0; i < TPCC_TRANSACTIONS; i++)
        if (strcmp(name, lg_tpcc_transaction_names[i]) == 0)
            return i;
    return -1;
}

static bool read_weights(struct lg_tpcc_params *read, json_t *mix, struct lg_error *error)
{
    const char *name;
    json_t *weight;

    json_object_foreach(mix, name, weight) {
        int transaction = transaction_of(name);

        if (transaction < 0 || !json_is_number(weight) || json_number_value(weight) < 0) {
            lg_fail(error, "workload.params.mix.%s: a transaction of TPC-C and its weight, "
                           "not below 0, are wanted", name);
            return false;
        }
        read->weights[transaction] = json_number_value(weight);
    }
    for (int i = 1; i < TPCC_TRANSACTIONS; i++)
        read->weights[i] += read->weights[i - 1];

    double total = read->weights[TPCC_TRANSACTIONS - 1];

    if (!(total > 0 && isfinite(total))) {
        lg_fail(error, "workload.params.mix: no transaction has a weight above 0");
        return false;
    }
    for (int i = 0; i < TPCC_TRANSACTIONS; i++)
        read->weights[i] /= total;
    return true;
}

static bool read_mix(struct lg_tpcc_params *read, const json_t *params, struct lg_error *error)
{
    json_t *mix = json_object_get(params, "mix");

    if (json_is_object(mix))
        return read_weights(read, mix, error);
    read->deck = !mix || (json_is_string(mix) && strcmp(json_string_value(mix), "deck") == 0);
    if (!read->deck)
        lg_fail(error, "workload.params.mix: \"deck\" or an object of weights is wanted");
    return read->deck;
}

static bool read_threshold(struct lg_tpcc_params *read, const json_t *params,
                           struct lg_error *error)
{
    const json_t *given = json_object_get(params, "threshold");
    int64_t threshold = 0;

    if (given && !json_is_null(given) &&
        !read_integer(params, "threshold", 1, 1000, &threshold, error))
        return false;
    read->threshold = (int32_t)threshold;
    return true;
}

static bool only_known_keys(json_t *params, struct lg_error *error)
{
    static const char *const known[] = {"warehouses", "data_seed", "home",
                                        "mix",        "threshold", "procedures"};
    const char *key;
    json_t *value;

    json_object_foreach(params, key, value) {
        size_t i = 0;

        while (i < sizeof known / sizeof *known && strcmp(key, known[i]) != 0)
            i++;
        if (i == sizeof known / sizeof *known) {
            lg_fail(error, "workload.params.%s: tpcc has no such parameter", key);
            return false;
        }
    }
    return true;
}

bool lg_tpcc_params_read(struct lg_tpcc_params *read, const json_t *params,
                         struct lg_error *error)
{
    int64_t warehouses, data_seed;

    *read = (struct lg_tpcc_params){0};
    if (!only_known_keys((json_t *)params, error) ||
        !read_integer(params, "warehouses", 1, TPCC_MAX_WAREHOUSES, &warehouses, error) ||
        !read_integer(params, "data_seed", 0, INT64_MAX, &data_seed, error) ||
        !read_word(params, "home", "all", "fixed", &read->fixed_home, error) ||
        !read_word(params, "procedures", "own", "hammerdb", &read->hammerdb, error) ||
        !read_threshold(read, params, error) || !read_mix(read, params, error))
        return false;
    read->warehouses = (int32_t)warehouses;
    read->data_seed = (uint64_t)data_seed;
    return true;
}

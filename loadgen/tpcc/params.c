/* The spec's workload.params for TPC-C: see params.h. */
#include "params.h"

#include "json.h"

#include <math.h>
#include <string.h>

const char *const lg_tpcc_transaction_names[TPCC_TRANSACTIONS] = {
    [TPCC_NEW_ORDER] = "new_order",       [TPCC_PAYMENT] = "payment",
    [TPCC_ORDER_STATUS] = "order_status", [TPCC_DELIVERY] = "delivery",
    [TPCC_STOCK_LEVEL] = "stock_level",
};

/* One of two words; `second` says which. The first where none is given. */
static bool read_word(const json_t *params, const char *key, const char *first_word,
                      const char *second_word, bool *second, struct tb_error *error)
{
    const char *const words[] = {first_word, second_word, NULL};
    int word;

    if (!tb_read_word(params, key, words, 0, &word, error))
        return false;
    *second = word == 1;
    return true;
}

static int transaction_of(const char *name)
{
    for (int i = 0; i < TPCC_TRANSACTIONS; i++)
        if (strcmp(name, lg_tpcc_transaction_names[i]) == 0)
            return i;
    return -1;
}

static bool read_weights(struct lg_tpcc_params *read, json_t *mix, struct tb_error *error)
{
    const char *name;
    json_t *weight;

    json_object_foreach(mix, name, weight) {
        int transaction = transaction_of(name);

        if (transaction < 0 || !json_is_number(weight) || json_number_value(weight) < 0) {
            tb_fail(error, "mix.%s: must be a transaction of TPC-C with a "
                           "weight >= 0", name);
            return false;
        }
        read->weights[transaction] = json_number_value(weight);
    }
    for (int i = 1; i < TPCC_TRANSACTIONS; i++)
        read->weights[i] += read->weights[i - 1];

    double total = read->weights[TPCC_TRANSACTIONS - 1];

    if (!(total > 0 && isfinite(total))) {
        tb_fail(error, "mix: no transaction has a weight above 0");
        return false;
    }
    for (int i = 0; i < TPCC_TRANSACTIONS; i++)
        read->weights[i] /= total;
    return true;
}

static bool read_mix(struct lg_tpcc_params *read, const json_t *params, struct tb_error *error)
{
    json_t *mix = json_object_get(params, "mix");

    if (json_is_object(mix))
        return read_weights(read, mix, error);
    read->deck = !mix || (json_is_string(mix) && strcmp(json_string_value(mix), "deck") == 0);
    if (!read->deck)
        tb_fail(error, "mix: must be \"deck\" or an object of weights");
    return read->deck;
}

static bool read(struct lg_tpcc_params *read, const json_t *params, struct tb_error *error)
{
    static const char *const keys[] = {"warehouses", "data_seed",  "home", "mix",
                                       "threshold",  "procedures", NULL};
    int64_t warehouses, data_seed, threshold;

    if (!tb_only_keys(params, keys, NULL, error) ||
        !tb_read_integer(params, "warehouses", 1, TPCC_MAX_WAREHOUSES, TB_REQUIRED, &warehouses,
                         error) ||
        !tb_read_integer(params, "data_seed", 0, INT64_MAX, TB_REQUIRED, &data_seed, error) ||
        !read_word(params, "home", "all", "fixed", &read->fixed_home, error) ||
        !read_word(params, "procedures", "own", "hammerdb", &read->hammerdb, error) ||
        !tb_read_integer(params, "threshold", 1, 1000, 0, &threshold, error) ||
        !read_mix(read, params, error))
        return false;
    read->warehouses = (int32_t)warehouses;
    read->data_seed = (uint64_t)data_seed;
    read->threshold = (int32_t)threshold;
    return true;
}

bool lg_tpcc_params_read(struct lg_tpcc_params *params, const json_t *given,
                         struct tb_error *error)
{
    *params = (struct lg_tpcc_params){0};
    return read(params, given, error) || tb_fail_within(error, "workload.params.");
}

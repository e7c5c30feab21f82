/* The spec's workload.params for TPC-C. */
#include "tpcc.h"

#include <math.h>

static const char *const homes[] = {"all", "fixed", NULL};
static const char *const procedures[] = {"own", "hammerdb", NULL};

static const struct tb_param keys[] = {
    TB_INTEGER_KEY(struct lg_tpcc_params, "warehouses", warehouses, 1, TPCC_MAX_WAREHOUSES,
                   TB_REQUIRED),
    TB_INTEGER_KEY(struct lg_tpcc_params, "data_seed", data_seed, 0, INT64_MAX, TB_REQUIRED),
    TB_WORD_KEY(struct lg_tpcc_params, "home", fixed_home, homes, 0, 0),
    TB_WORD_KEY(struct lg_tpcc_params, "procedures", hammerdb, procedures, 0, 0),
    TB_OTHER_KEY("mix"),
    {0},
};

static int transaction_of(const char *name)
{
    for (int i = 0; i < TPCC_TRANSACTIONS; i++)
        if (strcmp(name, lg_tpcc_operations[i].name) == 0)
            return i;
    return -1;
}

static bool read_weights(struct lg_tpcc_params *read, json_t *mix, struct tb_error *error)
{
    const char *name;
    json_t *weight;

    json_object_foreach(mix, name, weight) {
        int transaction = transaction_of(name);

        if (transaction < 0 || !json_is_number(weight) || json_number_value(weight) < 0)
            return tb_fail(error, "mix.%s: must be a transaction of TPC-C with a "
                           "weight >= 0", name);
        read->weights[transaction] = json_number_value(weight);
    }
    for (int i = 1; i < TPCC_TRANSACTIONS; i++)
        read->weights[i] += read->weights[i - 1];

    double total = read->weights[TPCC_TRANSACTIONS - 1];

    if (!(total > 0 && isfinite(total)))
        return tb_fail(error, "mix: no transaction has a weight above 0");
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

bool lg_tpcc_params_read(struct lg_tpcc_params *params, const json_t *given,
                         struct tb_error *error)
{
    *params = (struct lg_tpcc_params){0};
    return (tb_params_known(keys, NULL, given, error) &&
            tb_params_read(keys, given, params, error) &&
            read_mix(params, given, error)) ||
           tb_fail_within(error, "workload.params.");
}

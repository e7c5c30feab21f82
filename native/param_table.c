/* See param_table.h. */
#include "param_table.h"

enum { MOST_KEYS = 64 };

static void store(const struct tb_param *param, void *place, int64_t value)
{
    if (param->size == sizeof(bool))
        *(bool *)place = value != 0;
    else if (param->size == sizeof(uint32_t))
        *(uint32_t *)place = (uint32_t)value;
    else
        *(uint64_t *)place = (uint64_t)value;
}

static bool read_one(const struct tb_param *param, const json_t *object, void *place,
                     struct tb_error *error)
{
    int64_t value = 0, fallback = param->fallback;
    bool flag = false, read = true;
    int word = 0;

    switch (param->type) {
    case TB_INTEGER:
        read = tb_read_integer(object, param->key, param->least, param->most, fallback, &value,
                               error);
        break;
    case TB_FLAG:
        read = tb_read_flag(object, param->key, fallback != 0, &flag, error);
        value = flag;
        break;
    case TB_WORD:
        read = tb_read_word(object, param->key, param->words, (int)fallback, &word, error);
        value = param->first + word;
        break;
    case TB_NUMBER:
        return tb_read_number(object, param->key, 0, param->highest, param->number, place, error);
    case TB_OTHER:
        return true;
    }
    store(param, place, value);
    return read;
}

bool tb_params_read(const struct tb_param *params, size_t count, const json_t *object, void *to,
                    struct tb_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!read_one(&params[i], object, (char *)to + params[i].offset, error))
            return false;
    return true;
}

bool tb_params_known(const struct tb_param *params, size_t count, const json_t *object,
                     struct tb_error *error)
{
    const char *known[MOST_KEYS + 1] = {NULL};

    for (size_t i = 0; i < count && i < MOST_KEYS; i++)
        known[i] = params[i].key;
    return tb_only_keys(object, known, NULL, error);
}

/* See param_table.h. */
#include "param_table.h"

enum { MOST_KEYS = 64 };

static void store(const struct lg_param *param, void *place, int64_t value)
{
    if (param->size == sizeof(bool))
        *(bool *)place = value != 0;
    else if (param->size == sizeof(uint32_t))
        *(uint32_t *)place = (uint32_t)value;
    else
        *(uint64_t *)place = (uint64_t)value;
}

static bool read_one(const struct lg_param *param, int64_t fallback, const json_t *object,
                     void *place, struct tb_error *error)
{
    int64_t value = 0;
    bool flag = false, read = true;
    int word = 0;

    switch (param->type) {
    case LG_INTEGER:
        read = tb_read_integer(object, param->key, param->least, param->most, fallback, &value,
                               error);
        break;
    case LG_FLAG:
        read = tb_read_flag(object, param->key, fallback != 0, &flag, error);
        value = flag;
        break;
    case LG_WORD:
        read = tb_read_word(object, param->key, param->words, (int)fallback, &word, error);
        value = param->first + word;
        break;
    case LG_NUMBER:
        return tb_read_number(object, param->key, 0, param->highest, param->number, place, error);
    case LG_OTHER:
        return true;
    }
    store(param, place, value);
    return read;
}

bool lg_params_read(const struct lg_param *params, size_t count, bool optional,
                    const json_t *object, void *to, struct tb_error *error)
{
    for (size_t i = 0; i < count; i++) {
        int64_t fallback = params[i].fallback;

        if (optional && fallback == TB_REQUIRED)
            fallback = 0;
        if (!read_one(&params[i], fallback, object, (char *)to + params[i].offset, error))
            return false;
    }
    return true;
}

bool lg_params_known(const struct lg_param *params, size_t count, const json_t *object,
                     struct tb_error *error)
{
    const char *known[MOST_KEYS + 1] = {NULL};

    for (size_t i = 0; i < count && i < MOST_KEYS; i++)
        known[i] = params[i].key;
    return tb_only_keys(object, known, NULL, error);
}

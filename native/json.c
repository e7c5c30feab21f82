#include "native.h"

json_t *tb_integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *tb_clocks(void)
{
    struct tb_moment now = tb_moment();
    return json_pack("{s:o, s:o}", "monotonic_ns", tb_integer(now.monotonic_ns), "realtime_ns",
                     tb_integer(now.realtime_ns));
}

json_t *tb_read_document(struct tb_error *error)
{
    json_error_t parsing;
    json_t *document = json_loadf(stdin, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &parsing);
    if (!document)
        tb_fail(error, "the spec: %s (line %d)", parsing.text, parsing.line);
    return document;
}

/* A bool, an enum or an int, an integer of 64 bits. */
static void store(const struct tb_param *param, void *place, int64_t value)
{
    if (param->size == sizeof(bool))
        *(bool *)place = value != 0;
    else if (param->size == sizeof(uint32_t))
        *(uint32_t *)place = (uint32_t)value;
    else
        *(uint64_t *)place = (uint64_t)value;
}

static bool read_integer(const struct tb_param *param, const json_t *given, void *place,
                         struct tb_error *error)
{
    int64_t value = given ? json_integer_value(given) : param->fallback;
    store(param, place, value);
    if (!given && value != TB_REQUIRED)
        return true;
    if (!json_is_integer(given) || value < param->least || value > param->most)
        return tb_fail(error, "%s: must be an integer from %" PRId64 " to %" PRId64, param->key,
                       param->least, param->most);
    return param->unit == 0 || value % param->unit == 0 ||
           tb_fail(error, "%s: must be a multiple of %" PRId64 " (got %" PRId64 ")", param->key,
                   param->unit, value);
}

static bool read_number(const struct tb_param *param, const json_t *given, void *place,
                        struct tb_error *error)
{
    double *value = place;
    *value = given ? json_number_value(given) : param->number_fallback;
    return !given ||
           (json_is_number(given) && *value >= param->lowest && *value <= param->highest) ||
           tb_fail(error, "%s: must be a number from %g to %.9g", param->key, param->lowest,
                   param->highest);
}

static bool read_flag(const struct tb_param *param, const json_t *given, void *place,
                      struct tb_error *error)
{
    *(bool *)place = given ? json_is_true(given) : param->fallback != 0;
    return !given || json_is_boolean(given) ||
           tb_fail(error, "%s: must be true or false", param->key);
}

static bool read_word(const struct tb_param *param, const json_t *given, void *place,
                      struct tb_error *error)
{
    const char *text = json_string_value(given);
    int64_t index = given ? -1 : param->fallback;
    struct tb_text list = {0};
    for (int i = 0; param->words[i]; i++) {
        if (text && strcmp(text, param->words[i]) == 0)
            index = i;
        tb_text_printf(&list, "%s\"%s\"", i ? ", " : "", param->words[i]);
    }
    store(param, place, param->first + index);
    if (text)
        tb_text_printf(&list, " (got \"%s\")", text);
    if (index < 0)
        tb_fail(error, "%s: must be one of %s", param->key, list.bytes);
    free(list.bytes);
    return index >= 0;
}

bool tb_params_read(const struct tb_param *params, const json_t *object, void *to,
                    struct tb_error *error)
{
    static bool (*const read[])(const struct tb_param *, const json_t *, void *,
                                struct tb_error *) = {
        [TB_INTEGER] = read_integer, [TB_NUMBER] = read_number, [TB_FLAG] = read_flag,
        [TB_WORD] = read_word,
    };
    for (const struct tb_param *param = params; param->key; param++) {
        const json_t *given = json_object_get(object, param->key);
        if (param->type != TB_OTHER && !read[param->type](param, json_is_null(given) ? NULL : given,
                                                          (char *)to + param->offset, error))
            return false;
    }
    return true;
}

static bool is_in(const struct tb_param *params, const char *key)
{
    while (params && params->key && strcmp(params->key, key) != 0)
        params++;
    return params && params->key;
}

bool tb_params_known(const struct tb_param *params, const struct tb_param *more,
                     const json_t *object, struct tb_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return tb_fail(error, "must be a JSON object");
    json_object_foreach((json_t *)object, key, value) {
        if (!is_in(params, key) && !is_in(more, key))
            return tb_fail(error, "%s: unknown key", key);
    }
    return true;
}

bool tb_fail_within(struct tb_error *error, const char *format, ...)
{
    struct tb_error inner = *error;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text / 4, format, arguments);
    va_end(arguments);
    size_t used = strlen(error->text);
    if (length >= 0)
        snprintf(error->text + used, sizeof error->text - used, "%.760s", inner.text);
    return false;
}

static FILE *output; /* of the result, where it is kept apart */

bool tb_keep_output(struct tb_error *error)
{
    if (output)
        return true;
    int own = fflush(stdout) == 0 ? dup(STDOUT_FILENO) : -1;
    if (own >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        output = fdopen(own, "w");
    return output || tb_fail(error, "stdout: %s", strerror(errno));
}

bool tb_print(json_t *document, const char *program)
{
    FILE *to = output ? output : stdout;
    bool printed = json_dumpf(document, to, JSON_COMPACT) == 0 && putc('\n', to) != EOF &&
                   fflush(to) == 0;
    if (!printed)
        fprintf(stderr, "%s: cannot write the result: %s\n", program, strerror(errno));
    json_decref(document);
    return printed;
}

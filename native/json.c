#include "json.h"

#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const json_t *value_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

bool tb_read_integer(const json_t *object, const char *key, int64_t least, int64_t most,
                     int64_t fallback, int64_t *value, struct tb_error *error)
{
    const json_t *number = value_of(object, key);
    *value = number ? json_integer_value(number) : fallback;
    if (!number && fallback != TB_REQUIRED)
        return true;
    if (json_is_integer(number) && *value >= least && *value <= most)
        return true;
    return tb_fail(error, "%s: must be an integer from %" PRId64 " to %" PRId64, key, least, most);
}

bool tb_read_number(const json_t *object, const char *key, double least, double most,
                    double fallback, double *value, struct tb_error *error)
{
    const json_t *number = value_of(object, key);
    *value = number ? json_number_value(number) : fallback;
    if (!number || (json_is_number(number) && *value >= least && *value <= most))
        return true;
    return tb_fail(error, "%s: must be a number from %g to %.9g", key, least, most);
}

bool tb_read_flag(const json_t *object, const char *key, bool fallback, bool *value,
                  struct tb_error *error)
{
    const json_t *flag = value_of(object, key);
    *value = flag ? json_is_true(flag) : fallback;
    if (!flag || json_is_boolean(flag))
        return true;
    return tb_fail(error, "%s: must be true or false", key);
}

bool tb_read_word(const json_t *object, const char *key, const char *const *words,
                  int fallback, int *value, struct tb_error *error)
{
    const json_t *word = value_of(object, key);
    *value = fallback;
    if (!word && fallback >= 0)
        return true;
    const char *text = json_string_value(word);
    struct tb_text list = {0};
    for (int i = 0; words[i]; i++) {
        if (text && strcmp(text, words[i]) == 0) {
            *value = i;
            free(list.bytes);
            return true;
        }
        tb_text_printf(&list, "%s\"%s\"", i ? ", " : "", words[i]);
    }
    if (text)
        tb_fail(error, "%s: must be one of %s (got \"%s\")", key, list.bytes, text);
    else
        tb_fail(error, "%s: must be one of %s", key, list.bytes);
    free(list.bytes);
    return false;
}

static bool is_in(const char *key, const char *const *keys)
{
    for (; keys && *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

bool tb_only_keys(const json_t *object, const char *const *keys, const char *const *more,
                  struct tb_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return tb_fail(error, "must be a JSON object");
    json_object_foreach((json_t *)object, key, value) {
        if (!is_in(key, keys) && !is_in(key, more))
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

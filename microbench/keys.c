/* Keys of a job: each read with its limits and its default; every error names the key. */
#include "kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const json_t *given(const struct mb_job *job, const char *key)
{
    const json_t *value = json_object_get(job->given, key);
    return json_is_null(value) ? NULL : value;
}

bool mb_read_integer(const struct mb_job *job, const char *key, int64_t least, int64_t most,
                     int64_t otherwise, int64_t *value, struct lg_error *error)
{
    const json_t *number = given(job, key);
    *value = number ? json_integer_value(number) : otherwise;
    if ((!number || json_is_integer(number)) && *value >= least && *value <= most)
        return true;
    lg_fail(error, "%s: an integer from %" PRId64 " to %" PRId64 " is wanted", key, least, most);
    return false;
}

bool mb_read_bytes(const struct mb_job *job, const char *key, uint64_t otherwise,
                   uint64_t *value, struct lg_error *error)
{
    int64_t bytes;
    bool read = mb_read_integer(job, key, MB_LINE, INT64_MAX, (int64_t)otherwise, &bytes, error);
    *value = (uint64_t)bytes;
    if (read && *value % MB_LINE != 0) {
        lg_fail(error, "%s: %" PRId64 " is no multiple of a line's %d bytes", key, bytes,
                (int)MB_LINE);
        return false;
    }
    return read;
}

bool mb_read_number(const struct mb_job *job, const char *key, double least, double most,
                    double otherwise, double *value, struct lg_error *error)
{
    const json_t *number = given(job, key);
    *value = number ? json_number_value(number) : otherwise;
    if ((!number || json_is_number(number)) && *value >= least && *value <= most)
        return true;
    lg_fail(error, "%s: a number from %g to %g is wanted", key, least, most);
    return false;
}

bool mb_read_flag(const struct mb_job *job, const char *key, bool otherwise, bool *value,
                  struct lg_error *error)
{
    const json_t *flag = given(job, key);
    *value = flag ? json_is_true(flag) : otherwise;
    if (!flag || json_is_boolean(flag))
        return true;
    lg_fail(error, "%s: true or false is wanted", key);
    return false;
}

static void fail_with_words(const char *key, const char *found, const char *const *words,
                            struct lg_error *error)
{
    struct lg_text list = {0};
    for (size_t i = 0; words[i]; i++)
        lg_text_printf(&list, "%s\"%s\"", i ? ", " : "", words[i]);
    if (found)
        lg_fail(error, "%s: \"%s\" is none of %s", key, found, list.bytes);
    else
        lg_fail(error, "%s: one of %s is wanted", key, list.bytes);
    free(list.bytes);
}

bool mb_read_word(const struct mb_job *job, const char *key, const char *const *words,
                  int otherwise, int *value, struct lg_error *error)
{
    const json_t *word = given(job, key);
    *value = otherwise;
    if (!word && otherwise >= 0)
        return true;
    const char *text = json_string_value(word);
    for (int i = 0; text && words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return true;
        }
    }
    fail_with_words(key, text, words, error);
    return false;
}

/*
 * Reading a spec and printing a result, both JSON.
 *
 * The readers of keys take `fallback` where a key is missing or null. Each returns false with an
 * error that names the key.
 */
#ifndef NATIVE_JSON_H
#define NATIVE_JSON_H

#include "support.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The JSON document on stdin, as far as it goes; NULL with the error. */
json_t *tb_read_document(struct tb_error *error);

/* In place of a fallback: the key is required. */
#define TB_REQUIRED INT64_MIN

json_t *tb_integer(uint64_t value);
/* {"monotonic_ns": …, "realtime_ns": …} of this moment. */
json_t *tb_clocks(void);

bool tb_read_integer(const json_t *object, const char *key, int64_t least, int64_t most,
                     int64_t fallback, int64_t *value, struct tb_error *error);
bool tb_read_number(const json_t *object, const char *key, double least, double most,
                    double fallback, double *value, struct tb_error *error);
bool tb_read_flag(const json_t *object, const char *key, bool fallback, bool *value,
                  struct tb_error *error);
/* One of `words` (NULL at the end), as its index; `fallback` -1: the key is required. */
bool tb_read_word(const json_t *object, const char *key, const char *const *words,
                  int fallback, int *value, struct tb_error *error);

/* Whether `object` is one whose keys are all in `keys` or `more` (both end with NULL). */
bool tb_only_keys(const json_t *object, const char *const *keys, const char *const *more,
                  struct tb_error *error);

/* Puts a prefix before the error's text; always false. */
bool tb_fail_within(struct tb_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What else is printed on stdout from now on goes to stderr, the document alone to stdout. */
bool tb_keep_output(struct tb_error *error);

/* Prints the document on one line of stdout and releases it; false, with a message, on failure. */
bool tb_print(json_t *document, const char *program);

#endif

/* The keys of a JSON object in a table: type, limits, default, and their place in a struct. */
#ifndef LOADGEN_PARAM_TABLE_H
#define LOADGEN_PARAM_TABLE_H

#include "json.h"

#include <stddef.h>

struct lg_param {
    const char *key;
    enum { LG_OTHER /* read by the caller */, LG_INTEGER, LG_NUMBER, LG_FLAG, LG_WORD } type;
    size_t offset, size;
    int64_t least, most, fallback; /* fallback: of a word its index */
    double highest, number;        /* limit and default of a number from 0 */
    const char *const *words;      /* ended by NULL */
    int first;                     /* value of the first word */
};

#define LG_PLACE(type, member) \
    .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* Integers of 4 or 8 bytes, doubles, bools; words become an enum, or a bool where there are two. */
#define LG_INTEGER_KEY(struct_, key_, member, least_, most_, fallback_)            \
    {.key = (key_), .type = LG_INTEGER, LG_PLACE(struct_, member), .least = (least_), \
     .most = (most_), .fallback = (fallback_)}
#define LG_NUMBER_KEY(struct_, key_, member, highest_, number_)                        \
    {.key = (key_), .type = LG_NUMBER, LG_PLACE(struct_, member), .highest = (highest_), \
     .number = (number_)}
#define LG_FLAG_KEY(struct_, key_, member, fallback_) \
    {.key = (key_), .type = LG_FLAG, LG_PLACE(struct_, member), .fallback = (fallback_)}
#define LG_WORD_KEY(struct_, key_, member, words_, first_) \
    {.key = (key_), .type = LG_WORD, LG_PLACE(struct_, member), .words = (words_),       \
     .first = (first_)}
#define LG_OTHER_KEY(key_) {.key = (key_), .type = LG_OTHER}

#define LG_COUNT(table) (sizeof(table) / sizeof *(table))

/*
 * Reads the keys of `object` into `to`; false with an error that names the key. `optional`: those
 * without a default may be missing, too, and are 0 then.
 */
bool lg_params_read(const struct lg_param *params, size_t count, bool optional,
                    const json_t *object, void *to, struct tb_error *error);
/* False with the error where `object` has a key that is not in the table. */
bool lg_params_known(const struct lg_param *params, size_t count, const json_t *object,
                     struct tb_error *error);

#endif

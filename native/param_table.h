/* The keys of a JSON object in a table: type, limits, default, and their place in a struct. */
#ifndef NATIVE_PARAM_TABLE_H
#define NATIVE_PARAM_TABLE_H

#include "json.h"

#include <stddef.h>

struct tb_param {
    const char *key;
    enum { TB_OTHER /* read by the caller */, TB_INTEGER, TB_NUMBER, TB_FLAG, TB_WORD } type;
    size_t offset, size;
    int64_t least, most, fallback; /* fallback: of a word its index, or -1 */
    double highest, number;        /* limit and default of a number from 0 */
    const char *const *words;      /* ended by NULL */
    int first;                     /* value of the first word */
};

#define TB_PLACE(type, member) \
    .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* Integers of 4 or 8 bytes, doubles, bools; words become an enum, or a bool where there are two. */
#define TB_INTEGER_KEY(struct_, key_, member, least_, most_, fallback_)            \
    {.key = (key_), .type = TB_INTEGER, TB_PLACE(struct_, member), .least = (least_), \
     .most = (most_), .fallback = (fallback_)}
#define TB_NUMBER_KEY(struct_, key_, member, highest_, number_)                        \
    {.key = (key_), .type = TB_NUMBER, TB_PLACE(struct_, member), .highest = (highest_), \
     .number = (number_)}
#define TB_FLAG_KEY(struct_, key_, member, fallback_) \
    {.key = (key_), .type = TB_FLAG, TB_PLACE(struct_, member), .fallback = (fallback_)}
#define TB_WORD_KEY(struct_, key_, member, words_, first_, fallback_) \
    {.key = (key_), .type = TB_WORD, TB_PLACE(struct_, member), .words = (words_),       \
     .first = (first_), .fallback = (fallback_)}
#define TB_OTHER_KEY(key_) {.key = (key_), .type = TB_OTHER}

#define TB_COUNT(table) (sizeof(table) / sizeof *(table))

/* Reads the keys of `object` into `to`; false with an error that names the key. */
bool tb_params_read(const struct tb_param *params, size_t count, const json_t *object, void *to,
                    struct tb_error *error);
/* False with the error where `object` has a key that is not in the table. */
bool tb_params_known(const struct tb_param *params, size_t count, const json_t *object,
                     struct tb_error *error);

#endif

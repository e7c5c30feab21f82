/* Integers, decimals and arrays in PostgreSQL's formats: see loadgen_values.h. */
#include "loadgen_values.h"

#include <endian.h>

/* pg_type.dat: numbers that never change. */
enum type {
    TYPE_INT8 = 20,
    TYPE_INT2 = 21,
    TYPE_INT4 = 23,
    TYPE_INT2_ARRAY = 1005,
    TYPE_INT4_ARRAY = 1007,
    TYPE_INT8_ARRAY = 1016,
};

enum { ARRAY_HEADER = 20 };

/* The lowest `bytes` bytes of a number, the highest of them first. */
static char *put(char *to, int64_t value, size_t bytes)
{
    uint64_t big = htobe64((uint64_t)value);

    memcpy(to, (const char *)&big + (sizeof big - bytes), bytes);
    return to + bytes;
}

/* One integer in the binary format of `type`; NULL: there is none, or it does not fit. */
static char *put_integer(char *to, Oid type, int64_t value)
{
    if (type == TYPE_INT4 && value >= INT32_MIN && value <= INT32_MAX)
        return put(to, value, 4);
    if (type == TYPE_INT8)
        return put(to, value, 8);
    if (type == TYPE_INT2 && value >= INT16_MIN && value <= INT16_MAX)
        return put(to, value, 2);
    return NULL;
}

/* Dimensions, "has NULLs", element type, length, lower bound; then length and bytes of each. */
static char *put_array(char *to, Oid element, const struct lg_value *value)
{
    int width = element == TYPE_INT8 ? 8 : element == TYPE_INT4 ? 4 : 2;
    int64_t head[] = {1, 0, element, (int64_t)value->count, 1};

    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        to = put(to, head[i], 4);
    for (size_t i = 0; i < value->count && to != NULL; i++)
        to = put_integer(put(to, width, 4), element, value->integers[i]);
    return to;
}

/* {1,2,3} */
static char *write_array(char *to, const struct lg_value *value)
{
    *to++ = '{';
    for (size_t i = 0; i < value->count; i++)
        to += sprintf(to, i == 0 ? "%d" : ",%d", value->integers[i]);
    to += sprintf(to, "}");
    return to + 1;
}

static Oid element_of(Oid array)
{
    switch (array) {
    case TYPE_INT4_ARRAY: return TYPE_INT4;
    case TYPE_INT2_ARRAY: return TYPE_INT2;
    case TYPE_INT8_ARRAY: return TYPE_INT8;
    default: return 0;
    }
}

/* 1234 as 12.34 */
static char *write_cents(char *to, int64_t cents)
{
    uint64_t size = cents < 0 ? 0 - (uint64_t)cents : (uint64_t)cents;

    to += sprintf(to, "%s%llu.%02llu", cents < 0 ? "-" : "", (unsigned long long)(size / 100),
                  (unsigned long long)(size % 100));
    return to + 1;
}

/* An upper bound on the bytes of a value in either format. */
static size_t room_for(const struct lg_value *value)
{
    return value->kind == LG_INT_ARRAY ? ARRAY_HEADER + 12 * value->count + 2 : 32;
}

/* Writes a value that is neither NULL nor text; returns where it ends. */
static char *write_value(char *to, Oid type, const struct lg_value *value, int *format)
{
    char *end = NULL;

    *format = POSTGRES_BINARY_FORMAT;
    if (value->kind == LG_INT)
        end = put_integer(to, type, value->integer);
    else if (value->kind == LG_INT_ARRAY && element_of(type) != 0)
        end = put_array(to, element_of(type), value);
    if (end != NULL)
        return end;
    *format = POSTGRES_TEXT_FORMAT;
    switch (value->kind) {
    case LG_CENTS: return write_cents(to, value->integer);
    case LG_INT_ARRAY: return write_array(to, value);
    default: return to + 1 + sprintf(to, "%lld", (long long)value->integer);
    }
}

static bool make_room(struct postgres_parameters *parameters,
                      const struct lg_statement *statement, const struct lg_value *values)
{
    size_t bytes = 0;
    char *larger;

    for (size_t i = 0; i < statement->parameter_count; i++)
        bytes += room_for(&values[statement->parameters[i].value]);
    if (bytes <= parameters->scratch_bytes)
        return true;
    if ((larger = realloc(parameters->scratch, bytes)) == NULL)
        return false;
    parameters->scratch = larger;
    parameters->scratch_bytes = bytes;
    return true;
}

bool postgres_write_parameters(struct postgres_parameters *parameters,
                               const struct lg_statement *statement, const Oid *types,
                               const struct lg_value *values)
{
    char *to;

    if (!make_room(parameters, statement, values))
        return false;
    to = parameters->scratch;
    for (size_t i = 0; i < statement->parameter_count; i++) {
        const struct lg_value *value = &values[statement->parameters[i].value];
        int *format = &parameters->formats[i];
        char *end = to;

        if (value->null) {
            parameters->places[i] = NULL;
            parameters->lengths[i] = *format = 0;
        } else if (value->kind == LG_TEXT) {
            parameters->places[i] = value->text; /* text's binary format is its bytes */
            parameters->lengths[i] = (int)value->length;
            *format = POSTGRES_BINARY_FORMAT;
        } else {
            end = write_value(to, types[i], value, format);
            parameters->places[i] = to;
            parameters->lengths[i] = (int)(end - to);
        }
        to = end;
    }
    return true;
}

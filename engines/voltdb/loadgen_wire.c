/* VoltDB's wire protocol: see loadgen_wire.h. */
#include "loadgen_wire.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef __int128 wide;

enum { MAX_DIGITS = 37 };

/* ---- writing ------------------------------------------------------------------- */

void volt_put(struct tb_text *to, int64_t number, int bytes)
{
    uint64_t big = htobe64((uint64_t)number);

    tb_text_add(to, (const char *)&big + (8 - bytes), (size_t)bytes);
}

void volt_put_string(struct tb_text *to, const char *text, size_t length)
{
    volt_put(to, (int64_t)length, 4);
    tb_text_add(to, text, length);
}

static void put_wide(struct tb_text *to, wide number)
{
    volt_put(to, (int64_t)(number >> 64), 8);
    volt_put(to, (int64_t)number, 8);
}

void volt_put_decimal(struct tb_text *to, int64_t number, int places)
{
    wide scaled = number;

    for (; places < VOLT_DECIMAL_PLACES; places++)
        scaled *= 10;
    put_wide(to, scaled);
}

void volt_put_null(struct tb_text *to, enum volt_type type)
{
    switch (type) {
    case VOLT_TINYINT:
        volt_put(to, INT8_MIN, 1);
        break;
    case VOLT_SMALLINT:
        volt_put(to, INT16_MIN, 2);
        break;
    case VOLT_INTEGER:
        volt_put(to, INT32_MIN, 4);
        break;
    case VOLT_DECIMAL:
        volt_put(to, INT64_MIN, 8);
        volt_put(to, 0, 8);
        break;
    case VOLT_STRING:
        volt_put(to, -1, 4);
        break;
    default:
        volt_put(to, INT64_MIN, 8);
    }
}

void volt_begin_message(struct tb_text *to)
{
    to->length = 0;
    volt_put(to, 0, VOLT_LENGTH_BYTES);
}

void volt_set_length(struct tb_text *to, size_t begin)
{
    uint32_t big = htobe32((uint32_t)(to->length - begin));

    memcpy(to->bytes + begin - VOLT_LENGTH_BYTES, &big, sizeof big);
}

void volt_end_message(struct tb_text *to)
{
    volt_set_length(to, VOLT_LENGTH_BYTES);
}

void volt_begin_call(struct tb_text *to, const char *procedure, size_t length, int64_t handle,
                     int count)
{
    volt_begin_message(to);
    volt_put(to, 0, 1); /* the version of the message */
    volt_put_string(to, procedure, length);
    volt_put(to, handle, 8);
    volt_put(to, count, 2);
}

void volt_put_parameter(struct tb_text *to, const struct lg_value *value)
{
    if (value->null) {
        volt_put(to, VOLT_NULL, 1);
        return;
    }
    switch (value->kind) {
    case LG_INT:
        volt_put(to, VOLT_BIGINT, 1);
        volt_put(to, value->integer, 8);
        break;
    case LG_CENTS:
        volt_put(to, VOLT_DECIMAL, 1);
        volt_put_decimal(to, value->integer, 2);
        break;
    case LG_TEXT:
        volt_put(to, VOLT_STRING, 1);
        volt_put_string(to, value->text, value->length);
        break;
    case LG_INT_ARRAY:
        volt_put(to, VOLT_ARRAY, 1);
        volt_put(to, VOLT_INTEGER, 1);
        volt_put(to, (int64_t)value->count, 2);
        for (size_t i = 0; i < value->count; i++)
            volt_put(to, value->integers[i], 4);
    }
}

/* A decimal number in units of 10^-places; false where the text is none, or has more places. */
static bool scan_decimal(const char *text, size_t length, int places, wide *number)
{
    const char *at = text, *end = text + length;
    bool negative = at < end && *at == '-';
    bool point = false;
    int digits = 0, decimals = 0;
    wide sum = 0;

    for (at += negative; at < end; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9' || digits == MAX_DIGITS || (point && decimals == places))
            return false;
        sum = 10 * sum + (*at - '0');
        digits++;
        decimals += point;
    }
    if (digits == 0 || digits + places - decimals > MAX_DIGITS)
        return false;
    for (; decimals < places; decimals++)
        sum *= 10;
    *number = negative ? -sum : sum;
    return true;
}

static bool put_integer(struct tb_text *to, int bytes, const char *text, size_t length)
{
    wide number, most = ((wide)1 << (8 * bytes - 1)) - 1; /* the least one is NULL */

    if (!scan_decimal(text, length, 0, &number) || number > most || number < -most)
        return false;
    volt_put(to, (int64_t)number, bytes);
    return true;
}

/* "2020-01-01 00:00:00" as microseconds of UTC. */
static bool put_timestamp(struct tb_text *to, const char *text, size_t length)
{
    char copy[32];
    struct tm moment = {0};
    const char *end;

    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    end = strptime(copy, "%Y-%m-%d %H:%M:%S", &moment);
    if (end == NULL || *end != '\0')
        return false;
    volt_put(to, (int64_t)timegm(&moment) * 1000000, 8);
    return true;
}

/* COPY's escapes in place: the new length. */
static size_t unescape(char *text, size_t length)
{
    static const char *const names = "bfnrtv", *const meant = "\b\f\n\r\t\v";
    size_t to = 0;

    if (memchr(text, '\\', length) == NULL)
        return length;
    for (size_t i = 0; i < length; i++) {
        const char *found = NULL;

        if (text[i] == '\\' && i + 1 < length)
            found = strchr(names, text[++i]);
        text[to++] = found && *found ? meant[found - names] : text[i];
    }
    return to;
}

bool volt_put_column(struct tb_text *to, enum volt_type type, char *text, size_t length)
{
    wide number;

    if (length == 2 && memcmp(text, "\\N", 2) == 0) {
        volt_put_null(to, type);
        return true;
    }
    switch (type) {
    case VOLT_TINYINT:
        return put_integer(to, 1, text, length);
    case VOLT_SMALLINT:
        return put_integer(to, 2, text, length);
    case VOLT_INTEGER:
        return put_integer(to, 4, text, length);
    case VOLT_BIGINT:
        return put_integer(to, 8, text, length);
    case VOLT_DECIMAL:
        if (!scan_decimal(text, length, VOLT_DECIMAL_PLACES, &number))
            return false;
        put_wide(to, number);
        return true;
    case VOLT_TIMESTAMP:
        return put_timestamp(to, text, length);
    case VOLT_STRING:
        volt_put_string(to, text, unescape(text, length));
        return true;
    default:
        return false;
    }
}

/* ---- reading ------------------------------------------------------------------- */

static bool has(struct volt_reader *reader, int64_t bytes)
{
    if (bytes < 0 || reader->end - reader->at < bytes) {
        reader->failed = true;
        reader->at = reader->end;
        return false;
    }
    return true;
}

int64_t volt_get(struct volt_reader *reader, int bytes)
{
    uint64_t big = 0;

    if (!has(reader, bytes))
        return 0;
    memcpy(&big, reader->at, (size_t)bytes);
    reader->at += bytes;
    /* The first byte is the highest now; the shift brings the sign with it. */
    return (int64_t)be64toh(big) >> (64 - 8 * bytes);
}

bool volt_get_string(struct volt_reader *reader, const char **text, size_t *length)
{
    int64_t bytes = volt_get(reader, 4);

    *text = NULL;
    *length = 0;
    if (bytes < 0 || !has(reader, bytes))
        return false;
    *text = reader->at;
    *length = (size_t)bytes;
    reader->at += bytes;
    return true;
}

void volt_skip(struct volt_reader *reader, int64_t bytes)
{
    if (has(reader, bytes))
        reader->at += bytes;
}

static struct lg_cell integer_cell(struct volt_reader *reader, int bytes, char *room)
{
    int64_t number = volt_get(reader, bytes);

    if (number == INT64_MIN >> (64 - 8 * bytes))
        return (struct lg_cell){NULL, 0};
    return (struct lg_cell){room, (size_t)sprintf(room, "%lld", (long long)number)};
}

/* Without zeros at its end. */
static struct lg_cell decimal_cell(struct volt_reader *reader, char *room)
{
    char digits[VOLT_NUMBER_BYTES];
    int64_t high = volt_get(reader, 8);
    uint64_t low = (uint64_t)volt_get(reader, 8);
    unsigned __int128 number;
    char *to = room;
    int count = 0, last = 0;

    if (high == INT64_MIN && low == 0)
        return (struct lg_cell){NULL, 0};
    number = (unsigned __int128)(uint64_t)high << 64 | low;
    if (high < 0) {
        *to++ = '-';
        number = -number;
    }
    for (; number || count <= VOLT_DECIMAL_PLACES; number /= 10)
        digits[count++] = (char)('0' + (int)(number % 10));
    while (last < VOLT_DECIMAL_PLACES && digits[last] == '0')
        last++;
    for (int i = count - 1; i >= last || i >= VOLT_DECIMAL_PLACES; i--) {
        *to++ = digits[i];
        if (i == VOLT_DECIMAL_PLACES && last < VOLT_DECIMAL_PLACES)
            *to++ = '.';
    }
    return (struct lg_cell){room, (size_t)(to - room)};
}

static struct lg_cell float_cell(struct volt_reader *reader, char *room)
{
    int64_t bits = volt_get(reader, 8);
    double number;

    memcpy(&number, &bits, sizeof number);
    if (number <= -1.7E+308)
        return (struct lg_cell){NULL, 0};
    return (struct lg_cell){room, (size_t)snprintf(room, VOLT_NUMBER_BYTES, "%.17g", number)};
}

struct lg_cell volt_get_cell(struct volt_reader *reader, enum volt_type type, char *room)
{
    struct lg_cell cell = {NULL, 0};

    switch (type) {
    case VOLT_TINYINT:
        return integer_cell(reader, 1, room);
    case VOLT_SMALLINT:
        return integer_cell(reader, 2, room);
    case VOLT_INTEGER:
        return integer_cell(reader, 4, room);
    case VOLT_BIGINT:
    case VOLT_TIMESTAMP: /* microseconds since 1970 */
        return integer_cell(reader, 8, room);
    case VOLT_DECIMAL:
        return decimal_cell(reader, room);
    case VOLT_FLOAT:
        return float_cell(reader, room);
    default: /* STRING, VARBINARY, and others that have their length before them */
        volt_get_string(reader, &cell.text, &cell.length);
        return cell;
    }
}

/* VoltDB's messages: see loadgen_wire.h. */
#include "loadgen_wire.h"

#include <endian.h>

typedef __int128 wide;

enum { MAX_DIGITS = 37 };
/* 0.01 of a decimal number. */
#define CENT INT64_C(10000000000)
#define NULL_DECIMAL ((wide)INT64_MIN * ((wide)1 << 64))

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

/* The bytes of an integer; 0: the type is none. A timestamp is microseconds since 1970. */
static int width_of(enum volt_type type)
{
    switch (type) {
    case VOLT_TINYINT: return 1;
    case VOLT_SMALLINT: return 2;
    case VOLT_INTEGER: return 4;
    case VOLT_BIGINT:
    case VOLT_TIMESTAMP: return 8;
    default: return 0;
    }
}

static int64_t null_integer(int width)
{
    return INT64_MIN >> (64 - 8 * width);
}

static void put_null(struct tb_text *to, enum volt_type type)
{
    int width = width_of(type);

    if (width)
        volt_put(to, null_integer(width), width);
    else if (type == VOLT_DECIMAL)
        put_wide(to, NULL_DECIMAL);
    else
        volt_put(to, -1, 4); /* a text's length */
}

void volt_begin_message(struct tb_text *to)
{
    to->length = 0;
    volt_put(to, 0, VOLT_LENGTH_BYTES);
}

static void set_length(struct tb_text *to, size_t begin)
{
    uint32_t big = htobe32((uint32_t)(to->length - begin));

    memcpy(to->bytes + begin - VOLT_LENGTH_BYTES, &big, sizeof big);
}

void volt_end_message(struct tb_text *to)
{
    set_length(to, VOLT_LENGTH_BYTES);
}

static void begin_call(struct tb_text *to, const char *procedure, size_t length, int64_t handle,
                     int count)
{
    volt_begin_message(to);
    volt_put(to, 0, 1); /* the version of the message */
    volt_put_string(to, procedure, length);
    volt_put(to, handle, 8);
    volt_put(to, count, 2);
}

static void put_parameter(struct tb_text *to, const struct lg_value *value)
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
        put_wide(to, (wide)value->integer * CENT);
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

static bool put_column(struct tb_text *to, enum volt_type type, const struct lg_cell *column)
{
    wide number;

    if (column->text == NULL)
        put_null(to, type);
    else if (type == VOLT_STRING)
        volt_put_string(to, column->text, column->length);
    else if (type == VOLT_TIMESTAMP)
        return put_timestamp(to, column->text, column->length);
    else if (width_of(type))
        return put_integer(to, width_of(type), column->text, column->length);
    else if (type == VOLT_DECIMAL &&
             scan_decimal(column->text, column->length, VOLT_DECIMAL_PLACES, &number))
        put_wide(to, number);
    else
        return false;
    return true;
}

/* ---- calls of procedures --------------------------------------------------------- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \n\t");
}

/* The name at *at, which is moved past it. */
static struct volt_name take_name(const char **at)
{
    const char *begin = skip_space(*at);
    size_t length = strcspn(begin, " \n\t(:=");

    *at = skip_space(begin + length);
    return (struct volt_name){begin, length};
}

static bool is_word(struct volt_name name, const char *word)
{
    return name.length == strlen(word) && memcmp(name.text, word, name.length) == 0;
}

bool volt_call_parse(struct volt_call *call, const struct lg_statement *statement,
                     struct tb_error *error)
{
    const char *at = statement->sql, *open = strchr(at, '(');

    call->first = take_name(&at);
    if (open && call->first.length && at != open && is_word(take_name(&at), "when")) {
        while (call->conditions < statement->parameter_count &&
               statement->sql + statement->parameters[call->conditions].begin < open)
            at = statement->sql + statement->parameters[call->conditions++].end;
        at = skip_space(at);
        if (call->conditions > 0 && call->conditions <= 2 && is_word(take_name(&at), "else"))
            call->other = take_name(&at);
    }
    if (open && at == open && call->first.length && (!call->conditions || call->other.length))
        return true;
    return tb_fail(error,
                   "statements.%s: must be PROCEDURE [when :a [= :b] else PROCEDURE] (:c, …)",
                   statement->name);
}

/* Whether a statement's first procedure is the one to call. */
static bool holds(const struct volt_call *call, const struct lg_statement *statement,
                  const struct lg_value *values)
{
    const struct lg_value *a = &values[statement->parameters[0].value];

    if (call->conditions == 1)
        return a->integer != 0;
    return a->integer == values[statement->parameters[1].value].integer;
}

void volt_call_write(const struct volt_call *call, const struct lg_statement *statement,
                     const struct lg_value *values, struct tb_text *out, int64_t handle)
{
    struct volt_name name = call->first;

    if (call->conditions && !holds(call, statement, values))
        name = call->other;
    begin_call(out, name.text, name.length, handle,
                    (int)(statement->parameter_count - call->conditions));
    for (size_t i = call->conditions; i < statement->parameter_count; i++)
        put_parameter(out, &values[statement->parameters[i].value]);
    volt_end_message(out);
}

/* ---- bulk loads ------------------------------------------------------------------ */

enum { BATCH_BYTES = 1 << 20 };

bool volt_bulk_begin(struct volt_bulk *bulk, const char *table, const char *names,
                     struct tb_error *error)
{
    const json_t *columns = json_object_get(bulk->tables, table);
    const char *at = names;

    bulk->table = table;
    bulk->count = json_array_size(columns);
    bulk->partitioning = -1;
    bulk->waiting = bulk->stored = 0;
    bulk->rows.length = 0;
    for (size_t i = 0; i < bulk->count && i < LG_MAX_COLUMNS; i++) {
        const json_t *column = json_array_get(columns, i);
        const char *name = json_string_value(json_array_get(column, 0));
        size_t length = strcspn(at, ", ");

        if (name == NULL || strlen(name) != length || strncmp(name, at, length) != 0)
            break;
        bulk->columns[i].name = name;
        bulk->columns[i].type = (enum volt_type)json_integer_value(json_array_get(column, 1));
        if (json_is_true(json_array_get(column, 2)))
            bulk->partitioning = (int)i;
        at += length;
        at += strspn(at, ", ");
        if (i + 1 == bulk->count && *at == '\0')
            return true;
    }
    return tb_fail(error, "VoltDB: load %s: its columns must be %s", table, names);
}

/* Column `index` of a row of text, up to the end of the row; NULL where it has fewer. */
static const char *find_column(const char *row, size_t length, int index)
{
    const char *end = row + length;

    while (index-- > 0) {
        row = memchr(row, '\t', (size_t)(end - row));
        if (row == NULL)
            return NULL;
        row++;
    }
    return row;
}

static int64_t partition_of(const struct volt_bulk *bulk, const char *row, size_t length)
{
    const char *at = NULL;

    if (bulk->partitioning >= 0)
        at = find_column(row, length, bulk->partitioning);
    return at ? strtoll(at, NULL, 10) : 0; /* a row ends with a newline: the number does */
}

bool volt_bulk_is_full(const struct volt_bulk *bulk, const char *row, size_t length)
{
    return bulk->rows.length > BATCH_BYTES ||
           (bulk->waiting > 0 && partition_of(bulk, row, length) != bulk->partition);
}

bool volt_bulk_add(struct volt_bulk *bulk, const char *row, size_t length, struct tb_error *error)
{
    struct lg_cell cell;
    size_t begin;
    char *at;

    bulk->partition = partition_of(bulk, row, length);
    bulk->text.length = 0;
    tb_text_add(&bulk->text, row, length);
    at = bulk->text.bytes;
    volt_put(&bulk->rows, 0, VOLT_LENGTH_BYTES);
    begin = bulk->rows.length;
    for (size_t i = 0; i < bulk->count; i++) {
        if (!lg_column_next(&at, bulk->text.bytes + length, &cell))
            return tb_fail(error, "VoltDB: load %s: a row has %zu columns", bulk->table, i);
        if (!put_column(&bulk->rows, bulk->columns[i].type, &cell))
            return tb_fail(error, "VoltDB: load %s: %s: %.*s does not fit its type", bulk->table,
                           bulk->columns[i].name, cell.length < 40 ? (int)cell.length : 40,
                           cell.text);
    }
    set_length(&bulk->rows, begin);
    bulk->waiting++;
    return true;
}

static void put_table(const struct volt_bulk *bulk, struct tb_text *out)
{
    size_t begin, head;

    volt_put(out, VOLT_TABLE, 1);
    volt_put(out, 0, VOLT_LENGTH_BYTES);
    begin = out->length;
    volt_put(out, 0, VOLT_LENGTH_BYTES);
    head = out->length;
    volt_put(out, 0, 1); /* the status */
    volt_put(out, (int64_t)bulk->count, 2);
    for (size_t i = 0; i < bulk->count; i++)
        volt_put(out, bulk->columns[i].type, 1);
    for (size_t i = 0; i < bulk->count; i++)
        volt_put_string(out, bulk->columns[i].name, strlen(bulk->columns[i].name));
    set_length(out, head);
    volt_put(out, bulk->waiting, 4);
    tb_text_add(out, bulk->rows.bytes, bulk->rows.length);
    set_length(out, begin);
}

void volt_bulk_write_call(const struct volt_bulk *bulk, struct tb_text *out, int64_t handle)
{
    static const char one[] = "@LoadSinglepartitionTable", all[] = "@LoadMultipartitionTable";

    if (bulk->partitioning >= 0) {
        begin_call(out, one, strlen(one), handle, 4);
        volt_put(out, VOLT_VARBINARY, 1); /* the partitioning value, its lowest byte first */
        volt_put(out, 8, 4);
        for (int i = 0; i < 8; i++)
            volt_put(out, bulk->partition >> (8 * i), 1);
    } else {
        begin_call(out, all, strlen(all), handle, 3);
    }
    volt_put(out, VOLT_STRING, 1);
    volt_put_string(out, bulk->table, strlen(bulk->table));
    volt_put(out, VOLT_TINYINT, 1);
    volt_put(out, 0, 1); /* insert: replace nothing */
    put_table(bulk, out);
    volt_end_message(out);
}

void volt_bulk_sent(struct volt_bulk *bulk)
{
    bulk->stored += bulk->waiting;
    bulk->waiting = 0;
    bulk->rows.length = 0;
}

void volt_bulk_free(struct volt_bulk *bulk)
{
    free(bulk->rows.bytes);
    free(bulk->text.bytes);
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

    if (number == null_integer(bytes))
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

struct lg_cell volt_get_cell(struct volt_reader *reader, enum volt_type type, char *room)
{
    struct lg_cell cell = {NULL, 0};

    if (width_of(type))
        return integer_cell(reader, width_of(type), room);
    if (type == VOLT_DECIMAL)
        return decimal_cell(reader, room);
    /* Strings, and others that have their length before them. */
    volt_get_string(reader, &cell.text, &cell.length);
    return cell;
}

/* Texts: a statement with its values, and the server's error message. */
#include "loadgen_innodb.h"

static void add_integer(struct tb_text *sql, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        digits[--at] = '-';
    tb_text_add(sql, digits + at, sizeof digits - at);
}

/* 1234 as 12.34, -5 as -0.05. */
static void add_cents(struct tb_text *sql, int64_t cents)
{
    uint64_t left = cents < 0 ? 0 - (uint64_t)cents : (uint64_t)cents;
    char fraction[3] = {'.', (char)('0' + left / 10 % 10), (char)('0' + left % 10)};

    if (cents < 0)
        tb_text_add(sql, "-", 1);
    add_integer(sql, (int64_t)(left / 100));
    tb_text_add(sql, fraction, sizeof fraction);
}

static void add_text(struct tb_text *sql, const char *text, size_t length)
{
    tb_text_add(sql, "'", 1);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            tb_text_add(sql, "\\", 1);
        tb_text_add(sql, text + i, 1);
    }
    tb_text_add(sql, "'", 1);
}

/* One array, or the rows of `count` arrays that have the length of the first. */
static void add_arrays(struct tb_text *sql, const struct lg_statement *statement, size_t first,
                       size_t count, const struct lg_value *values)
{
    const struct lg_parameter *parameters = &statement->parameters[first];
    size_t rows = values[parameters[0].value].count;

    tb_text_add(sql, "'[", 2);
    for (size_t row = 0; row < rows; row++) {
        if (row > 0)
            tb_text_add(sql, ",", 1);
        if (count > 1)
            tb_text_add(sql, "[", 1);
        for (size_t i = 0; i < count; i++) {
            const struct lg_value *value = &values[parameters[i].value];

            if (i > 0)
                tb_text_add(sql, ",", 1);
            add_integer(sql, row < value->count ? value->integers[row] : 0);
        }
        if (count > 1)
            tb_text_add(sql, "]", 1);
    }
    tb_text_add(sql, "]'", 2);
}

/* The number of consecutive arrays from this parameter on; 0: it is not an array. */
static size_t arrays_from(const struct lg_statement *statement, size_t first)
{
    size_t count = 0;

    while (first + count < statement->parameter_count &&
           statement->parameters[first + count].kind == LG_INT_ARRAY &&
           (count == 0 || statement->parameters[first + count].begin ==
                              statement->parameters[first + count - 1].end))
        count++;
    return count;
}

static void add_value(struct tb_text *sql, const struct lg_value *value, enum lg_kind kind)
{
    if (value->null)
        tb_text_add(sql, "NULL", 4);
    else if (kind == LG_INT)
        add_integer(sql, value->integer);
    else if (kind == LG_CENTS)
        add_cents(sql, value->integer);
    else
        add_text(sql, value->text, value->length);
}

void innodb_write_statement(struct tb_text *sql, const struct lg_statement *statement,
                            const struct lg_value *values)
{
    size_t done = 0;

    sql->length = 0;
    for (size_t i = 0; i < statement->parameter_count; i++) {
        const struct lg_parameter *parameter = &statement->parameters[i];
        size_t arrays = arrays_from(statement, i);

        tb_text_add(sql, statement->sql + done, parameter->begin - done);
        if (arrays > 0) {
            add_arrays(sql, statement, i, arrays, values);
            i += arrays - 1;
        } else {
            add_value(sql, &values[parameter->value], parameter->kind);
        }
        done = statement->parameters[i].end;
    }
    tb_text_add(sql, statement->sql + done, strlen(statement->sql + done));
}

void innodb_say(char *to, size_t size, const char *words)
{
    size_t length = 0;

    for (; *words && *words != '\n' && length + 1 < size; words++)
        to[length++] = (unsigned char)*words < 0x80 ? *words : '?';
    to[length] = '\0';
}

bool innodb_fail(MYSQL *server, const char *action, struct tb_error *error)
{
    char found[512];

    innodb_say(found, sizeof found, mysql_error(server));
    return tb_fail(error, "%s: %s (error %u)", action, found, mysql_errno(server));
}

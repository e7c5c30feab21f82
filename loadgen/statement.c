/*
 * Finding the :names in a statement, past everything in which a colon means something
 * else: texts, quoted identifiers, comments, PostgreSQL's :: casts.
 */
#include "spec.h"

#include <ctype.h>

static bool name_begins(char c)
{
    return c == '_' || isalpha((unsigned char)c);
}

static bool name_goes_on(char c)
{
    return name_begins(c) || isdigit((unsigned char)c);
}

static const char *after(const char *at, const char *end)
{
    const char *found = strstr(at, end);
    return found ? found + strlen(end) : at + strlen(at);
}

/* The next ':' that begins a name; NULL at the end of the text. */
static const char *next_name(const char *at)
{
    while (*at) {
        if (*at == '\'' || *at == '"' || *at == '`')
            at = after(at + 1, (char[]){*at, 0});
        else if (strncmp(at, "--", 2) == 0)
            at = after(at, "\n");
        else if (strncmp(at, "/*", 2) == 0)
            at = after(at + 2, "*/");
        else if (strncmp(at, "::", 2) == 0)
            at += 2;
        else if (*at == ':' && name_begins(at[1]))
            return at;
        else
            at++;
    }
    return NULL;
}

static int find_bind_parameter(const struct lg_operation *operation, const char *name, size_t length)
{
    for (int i = 0; i < LG_MAX_VALUES && operation->bind_parameters[i].name; i++)
        if (strlen(operation->bind_parameters[i].name) == length &&
            memcmp(operation->bind_parameters[i].name, name, length) == 0)
            return i;
    return -1;
}

static bool read_statement(struct lg_statement *statement, const struct lg_operation *operation,
                           struct tb_error *error)
{
    const char *sql = statement->sql, *at = sql;
    while ((at = next_name(at))) {
        size_t length = 1;
        while (name_goes_on(at[1 + length]))
            length++;
        int value = find_bind_parameter(operation, at + 1, length);
        if (value < 0)
            return tb_fail(error, "statements.%s: the workload has no parameter :%.*s",
                           operation->name, (int)length, at + 1);
        if (statement->parameter_count == LG_MAX_PARAMETERS)
            return tb_fail(error, "statements.%s: more than %d parameters", operation->name,
                           LG_MAX_PARAMETERS);
        struct lg_parameter *parameter = &statement->parameters[statement->parameter_count++];
        parameter->begin = (size_t)(at - sql);
        parameter->end = parameter->begin + 1 + length;
        parameter->value = value;
        parameter->kind = operation->bind_parameters[value].kind;
        at += 1 + length;
    }
    return true;
}

/* The texts of one operation; false with the error. */
static bool read_texts(struct lg_statements *statements, const json_t *given,
                       const struct lg_operation *operation, size_t wanted,
                       struct tb_error *error)
{
    size_t texts = json_is_array(given) ? json_array_size(given) : 1;
    if (!given)
        return tb_fail(error, "statements.%s: is required by the workload", operation->name);
    if (texts != wanted && texts != 1)
        return tb_fail(error, "statements.%s: must have %zu texts (got %zu)", operation->name,
                       wanted, texts);
    for (size_t i = 0; i < texts; i++) {
        struct lg_statement *statement = &statements->all[statements->count++];
        statement->name = operation->name;
        statement->sql = json_string_value(json_is_array(given) ? json_array_get(given, i)
                                                                : given);
        if (!statement->sql)
            return tb_fail(error, "statements.%s: must be a text or a list of texts",
                           operation->name);
        if (!read_statement(statement, operation, error))
            return false;
    }
    return true;
}

bool lg_statements_read(struct lg_statements *statements, const json_t *given,
                        const struct lg_workload *workload, const size_t *wanted,
                        struct tb_error *error)
{
    size_t most = 0;
    for (size_t i = 0; i < workload->operation_count; i++)
        most += wanted[i];
    *statements = (struct lg_statements){.all = tb_allocate(most, sizeof *statements->all)};
    for (size_t i = 0; i < workload->operation_count; i++) {
        const struct lg_operation *operation = &workload->operations[i];
        statements->of[i].first = statements->count;
        if (wanted[i] && !read_texts(statements, json_object_get(given, operation->name),
                                     operation, wanted[i], error)) {
            lg_statements_free(statements);
            return false;
        }
        statements->of[i].count = statements->count - statements->of[i].first;
    }
    return true;
}

void lg_statements_free(struct lg_statements *statements)
{
    free(statements->all);
    *statements = (struct lg_statements){0};
}

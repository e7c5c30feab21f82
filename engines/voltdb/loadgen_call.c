/* A statement as a call of a procedure: see loadgen_call.h. */
#include "loadgen_call.h"

#include <string.h>

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
    volt_begin_call(out, name.text, name.length, handle,
                    (int)(statement->parameter_count - call->conditions));
    for (size_t i = call->conditions; i < statement->parameter_count; i++)
        volt_put_parameter(out, &values[statement->parameters[i].value]);
    volt_end_message(out);
}

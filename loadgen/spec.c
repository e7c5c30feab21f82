/*
 * Reading the spec: one table of keys with their limits and defaults, then what must hold
 * between them; and the :names in its statements.
 */
#include "spec.h"

#include <ctype.h>
#include <math.h>

#define MOST_TERMINALS 10000000
/* A stall of the server is measured, however long; a window that it fills has no result. */
#define SHORTEST_STALL_TIMEOUT_NS (120 * (uint64_t)TB_SECOND)
#define LONGEST_NS (INT64_C(366) * 24 * 3600 * (int64_t)TB_SECOND)

#define KEY(member, least, most, fallback) \
    TB_INTEGER_KEY(struct lg_spec, #member, member, least, most, fallback)
static const char *const tasks[] = {"run", "load", "verify", NULL};
/* NULL and a missing key are the default. */
static const struct tb_param keys[] = {
    TB_WORD_KEY(struct lg_spec, "task", task, tasks, LG_RUN, 0),
    KEY(threads, 1, 4096, TB_REQUIRED),
    KEY(connections, 1, MOST_TERMINALS, 1),
    KEY(terminals, 1, MOST_TERMINALS, 0),
    KEY(first_terminal, 0, UINT32_MAX, 0),
    KEY(all_terminals, 1, UINT32_MAX, 0),
    KEY(ramp_up_ns, 0, LONGEST_NS, 0),
    KEY(duration_ns, 1, LONGEST_NS, 0),
    KEY(operations, 1, INT64_MAX, 0),
    KEY(seed, 0, INT64_MAX, 0),
    KEY(drain_ns, 0, LONGEST_NS, 5 * (int64_t)TB_SECOND),
    KEY(stall_timeout_ns, 1, LONGEST_NS, 0),
    KEY(series_interval_ns, TB_MILLISECOND, LONGEST_NS, TB_SECOND),
    KEY(intervals_per_histogram, 1, UINT32_MAX, 1),
    KEY(start_at_realtime_ns, 1, INT64_MAX, 0),
    TB_OTHER_KEY("schema"),
    TB_OTHER_KEY("backend"),
    TB_OTHER_KEY("connection"),
    TB_OTHER_KEY("workload"),
    TB_OTHER_KEY("statements"),
    TB_OTHER_KEY("mode"),
    TB_OTHER_KEY("journal"),
    TB_OTHER_KEY("shared"),
    {0},
};
#undef KEY

static const char *const loops[] = {"closed", "open", NULL};
static const struct tb_param mode_keys[] = {
    TB_WORD_KEY(struct lg_spec, "kind", open_loop, loops, 0, -1),
    TB_FLAG_KEY(struct lg_spec, "think_time", think_time, false),
    TB_NUMBER_KEY(struct lg_spec, "rate_per_s", rate_per_s, 0, 1e9, 0),
    TB_NUMBER_KEY(struct lg_spec, "first_start", first_start, 0, 0.999999999, 0),
    TB_INTEGER_KEY(struct lg_spec, "processes", processes, 1, UINT16_MAX, 1),
    {0},
};

static const char *read_text(const json_t *object, const char *key, const char *named,
                             struct tb_error *error)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        tb_fail(error, "%s: must be a string", named);
    return text;
}

static bool read_objects(struct lg_spec *spec, struct tb_error *error)
{
    const json_t *workload = json_object_get(spec->document, "workload");
    spec->connection = json_object_get(spec->document, "connection");
    spec->statements = json_object_get(spec->document, "statements");
    spec->journal = json_string_value(json_object_get(spec->document, "journal"));
    spec->shared = json_string_value(json_object_get(spec->document, "shared"));
    spec->backend = read_text(spec->document, "backend", "backend", error);
    if (!spec->backend)
        return false;
    if (!json_is_object(spec->connection))
        return tb_fail(error, "connection: must be an object");
    if (!json_is_object(workload))
        return tb_fail(error, "workload: must be an object with name and params");
    spec->workload = read_text(workload, "name", "workload.name", error);
    spec->params = json_object_get(workload, "params");
    if (spec->workload && !json_is_object(spec->params))
        tb_fail(error, "workload.params: must be an object");
    return spec->workload && json_is_object(spec->params);
}

static bool read_mode(struct lg_spec *spec, struct tb_error *error)
{
    if (!tb_params_read(mode_keys, json_object_get(spec->document, "mode"), spec, error))
        return tb_fail_within(error, "mode.");
    spec->think_time &= !spec->open_loop;
    return !spec->open_loop || spec->rate_per_s > 0 ||
           tb_fail(error, "mode.rate_per_s: must be > 0 and <= 1e9");
}

/* A number of operations of an open loop is a duration: the next one would start after it. */
static bool bounded(struct lg_spec *spec, struct tb_error *error)
{
    if (!spec->open_loop || spec->operations == 0)
        return true;
    double duration = (double)spec->operations / spec->rate_per_s * (double)TB_SECOND;
    if (duration > (double)LONGEST_NS)
        return tb_fail(error, "operations: would take more than a year at %g a second",
                       spec->rate_per_s);
    spec->duration_ns = (uint64_t)llround(duration);
    spec->duration_ns += spec->duration_ns == 0;
    spec->operations = 0;
    return true;
}

static bool agrees(struct lg_spec *spec, struct tb_error *error)
{
    if (spec->terminals == 0)
        spec->terminals = spec->connections;
    if (spec->all_terminals == 0)
        spec->all_terminals = spec->first_terminal + spec->terminals;
    if (spec->threads > spec->connections)
        tb_fail(error, "threads: each of %u threads needs a connection (%u connections)",
                spec->threads, spec->connections);
    else if (spec->terminals < spec->connections)
        tb_fail(error, "terminals: must be >= connections (%u terminals, %u connections)",
                spec->terminals, spec->connections);
    else if ((uint64_t)spec->first_terminal + spec->terminals > spec->all_terminals)
        tb_fail(error, "all_terminals: must be >= first_terminal + terminals (got %u)",
                spec->all_terminals);
    else if ((spec->duration_ns == 0) == (spec->operations == 0))
        tb_fail(error, "duration_ns: set either duration_ns or operations");
    else
        return bounded(spec, error);
    return false;
}

bool lg_spec_read(struct lg_spec *spec, json_t *document, struct tb_error *error)
{
    *spec = (struct lg_spec){.document = document};
    if (!json_is_object(document))
        return tb_fail(error, "the spec: must be a JSON object");
    if (!tb_params_known(keys, NULL, document, error))
        return false;
    if (json_integer_value(json_object_get(document, "schema")) != 1)
        return tb_fail(error, "schema: must be 1");
    if (!tb_params_read(keys, document, spec, error) || !read_objects(spec, error))
        return false;
    if (spec->task == LG_RUN && !(read_mode(spec, error) && agrees(spec, error)))
        return false;
    if (spec->stall_timeout_ns == 0)
        spec->stall_timeout_ns = spec->duration_ns > SHORTEST_STALL_TIMEOUT_NS
                                     ? spec->duration_ns
                                     : SHORTEST_STALL_TIMEOUT_NS;
    return true;
}

void lg_spec_free(struct lg_spec *spec)
{
    json_decref(spec->document);
}

/* ---- statements ---------------------------------------------------------------- */

static bool name_begins(char c)
{
    return c == '_' || isalpha((unsigned char)c);
}

static const char *after(const char *at, const char *end)
{
    const char *found = strstr(at, end);
    return found ? found + strlen(end) : at + strlen(at);
}

/*
 * The next ':' that begins a name, past everything in which a colon means something else (texts,
 * quoted identifiers, comments, PostgreSQL's :: casts); NULL at the end of the text.
 */
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
        while (name_begins(at[1 + length]) || isdigit((unsigned char)at[1 + length]))
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

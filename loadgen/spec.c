/*
 * Reading the spec: one table of keys with their limits and defaults, then what must hold
 * between them.
 */
#include "clock.h"
#include "json.h"
#include "spec.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define MOST_TERMINALS 10000000
/* A stall of the server is measured, however long; a window that it fills has no result. */
#define SHORTEST_STALL_TIMEOUT_NS (120 * (uint64_t)TB_SECOND)
#define LONGEST_NS (INT64_C(366) * 24 * 3600 * (int64_t)TB_SECOND)

enum presence { REQUIRED, OPTIONAL, OF_A_RUN /* required for task "run" */ };

/* Integers. NULL and a missing key are the default, where the key is optional. */
static const struct number {
    const char *key;
    enum presence presence;
    int64_t least, most, fallback;
    size_t offset;
    size_t size;
} numbers[] = {
#define FIELD(name) offsetof(struct lg_spec, name), sizeof(((struct lg_spec *)0)->name)
    {"threads", REQUIRED, 1, 4096, 0, FIELD(threads)},
    {"connections", OF_A_RUN, 1, MOST_TERMINALS, 0, FIELD(connections)},
    {"terminals", OPTIONAL, 1, MOST_TERMINALS, 0, FIELD(terminals)},
    {"first_terminal", OPTIONAL, 0, UINT32_MAX, 0, FIELD(first_terminal)},
    {"all_terminals", OPTIONAL, 1, UINT32_MAX, 0, FIELD(all_terminals)},
    {"ramp_up_ns", OF_A_RUN, 0, LONGEST_NS, 0, FIELD(ramp_up_ns)},
    {"duration_ns", OPTIONAL, 1, LONGEST_NS, 0, FIELD(duration_ns)},
    {"operations", OPTIONAL, 1, INT64_MAX, 0, FIELD(operations)},
    {"drain_ns", OPTIONAL, 0, LONGEST_NS, 5 * (int64_t)TB_SECOND, FIELD(drain_ns)},
    {"stall_timeout_ns", OPTIONAL, 1, LONGEST_NS, 0, FIELD(stall_timeout_ns)},
    {"series_interval_ns", OPTIONAL, TB_MILLISECOND, LONGEST_NS, TB_SECOND,
     FIELD(series_interval_ns)},
    {"start_at_realtime_ns", OPTIONAL, 1, INT64_MAX, 0, FIELD(start_at_realtime_ns)},
    {"seed", OF_A_RUN, 0, INT64_MAX, 0, FIELD(seed)},
#undef FIELD
};

static const char *const other_keys[] = {
    "schema", "task", "backend", "modules", "connection", "workload", "statements", "mode",
    "journal", "shared", NULL,
};

static bool only_known_keys(json_t *document, struct tb_error *error)
{
    const char *known[COUNT(numbers) + 1] = {NULL};
    for (size_t i = 0; i < COUNT(numbers); i++)
        known[i] = numbers[i].key;
    if (json_is_object(document))
        return tb_only_keys(document, known, other_keys, error);
    tb_fail(error, "the spec: must be a JSON object");
    return false;
}

static bool read_number(struct lg_spec *spec, const struct number *number, struct tb_error *error)
{
    bool required = number->presence == REQUIRED ||
                    (number->presence == OF_A_RUN && spec->task == LG_RUN);
    int64_t value;
    if (!tb_read_integer(spec->document, number->key, number->least, number->most,
                         required ? TB_REQUIRED : number->fallback, &value, error))
        return false;
    void *field = (char *)spec + number->offset;
    if (number->size == sizeof(uint32_t))
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = (uint64_t)value;
    return true;
}

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
    spec->modules = json_object_get(spec->document, "modules");
    spec->journal = json_string_value(json_object_get(spec->document, "journal"));
    spec->shared = json_string_value(json_object_get(spec->document, "shared"));
    spec->backend = read_text(spec->document, "backend", "backend", error);
    if (!spec->backend)
        return false;
    if (!json_is_object(spec->connection)) {
        tb_fail(error, "connection: must be an object");
        return false;
    }
    if (!json_is_object(workload)) {
        tb_fail(error, "workload: must be an object with name and params");
        return false;
    }
    spec->workload = read_text(workload, "name", "workload.name", error);
    spec->params = json_object_get(workload, "params");
    if (spec->workload && !json_is_object(spec->params))
        tb_fail(error, "workload.params: must be an object");
    return spec->workload && json_is_object(spec->params);
}

static bool read_mode(struct lg_spec *spec, struct tb_error *error)
{
    const json_t *mode = json_object_get(spec->document, "mode");
    const char *kind = json_string_value(json_object_get(mode, "kind"));
    if (kind && strcmp(kind, "closed") == 0) {
        spec->think_time = json_is_true(json_object_get(mode, "think_time"));
        return true;
    }
    if (!kind || strcmp(kind, "open") != 0) {
        tb_fail(error, "mode.kind: must be \"closed\" or \"open\"");
        return false;
    }
    spec->open_loop = true;
    spec->rate_per_s = json_number_value(json_object_get(mode, "rate_per_s"));
    if (!(spec->rate_per_s > 0 && spec->rate_per_s <= 1e9)) {
        tb_fail(error, "mode.rate_per_s: must be > 0 and <= 1e9");
        return false;
    }
    const json_t *first = json_object_get(mode, "first_start");
    spec->first_start = json_number_value(first);
    if ((first && !json_is_number(first)) || !(spec->first_start >= 0 && spec->first_start < 1)) {
        tb_fail(error, "mode.first_start: must be >= 0 and < 1");
        return false;
    }
    return true;
}

static void set_stall_timeout(struct lg_spec *spec)
{
    if (spec->stall_timeout_ns == 0)
        spec->stall_timeout_ns = spec->duration_ns > SHORTEST_STALL_TIMEOUT_NS
                                     ? spec->duration_ns
                                     : SHORTEST_STALL_TIMEOUT_NS;
}

/* A number of operations of an open loop is a duration: the next one would start after it. */
static bool bounded(struct lg_spec *spec, struct tb_error *error)
{
    if (!spec->open_loop || spec->operations == 0)
        return true;
    double duration = (double)spec->operations / spec->rate_per_s * (double)TB_SECOND;
    if (duration > (double)LONGEST_NS) {
        tb_fail(error, "operations: would take more than a year at %g a second",
                spec->rate_per_s);
        return false;
    }
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

static bool read_task(struct lg_spec *spec, struct tb_error *error)
{
    static const char *const tasks[] = {"run", "load", "verify", NULL};
    int task;
    if (!tb_read_word(spec->document, "task", tasks, LG_RUN, &task, error))
        return false;
    spec->task = (enum lg_task)task;
    return true;
}

bool lg_spec_read(struct lg_spec *spec, json_t *document, struct tb_error *error)
{
    *spec = (struct lg_spec){.document = document};
    if (!only_known_keys(document, error))
        return false;
    if (json_integer_value(json_object_get(document, "schema")) != 1)
        tb_fail(error, "schema: must be 1");
    else if (read_task(spec, error) && read_objects(spec, error)) {
        for (size_t i = 0; i < COUNT(numbers); i++)
            if (!read_number(spec, &numbers[i], error))
                return false;
        if (spec->task == LG_RUN && !(read_mode(spec, error) && agrees(spec, error)))
            return false;
        set_stall_timeout(spec);
        return true;
    }
    return false;
}

void lg_spec_free(struct lg_spec *spec)
{
    json_decref(spec->document);
}

enum lg_rest lg_read_rest(void)
{
    char rest[256];
    ssize_t length = read(STDIN_FILENO, rest, sizeof rest);
    if (length <= 0)
        return LG_REST_END;
    for (ssize_t i = 0; i < length; i++)
        if (!isspace((unsigned char)rest[i]))
            return LG_REST_TEXT;
    return LG_REST_BLANK;
}

/*
 * Reading the spec: one table of keys with their limits and defaults, then what must hold
 * between them. Schema: harness/store/schemas/loadgen-spec.json.
 */
#include "spec.h"
#include "support.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define MOST_TERMINALS 10000000
/* A stall of the server is measured, however long; a window that it fills has no result. */
#define SHORTEST_STALL_TIMEOUT_NS (120 * (uint64_t)LG_SECOND)
#define LONGEST_NS (INT64_C(366) * 24 * 3600 * (int64_t)LG_SECOND)

enum presence { REQUIRED, OPTIONAL, OF_A_RUN /* required for task "run" */ };

/* Integers. NULL and a missing key are the default, where the key is optional. */
static const struct number {
    const char *key;
    enum presence presence;
    int64_t least, most, otherwise;
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
    {"drain_ns", OPTIONAL, 0, LONGEST_NS, 5 * (int64_t)LG_SECOND, FIELD(drain_ns)},
    {"stall_timeout_ns", OPTIONAL, 1, LONGEST_NS, 0, FIELD(stall_timeout_ns)},
    {"series_interval_ns", OPTIONAL, LG_MILLISECOND, LONGEST_NS, LG_SECOND,
     FIELD(series_interval_ns)},
    {"start_at_realtime_ns", OPTIONAL, 1, INT64_MAX, 0, FIELD(start_at_realtime_ns)},
    {"seed", OF_A_RUN, 0, INT64_MAX, 0, FIELD(seed)},
#undef FIELD
};

static const char *const other_keys[] = {
    "schema", "task", "backend", "modules", "connection", "workload", "statements", "mode",
    "journal", "shared",
};

static bool known_key(const char *key)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return true;
    for (size_t i = 0; i < sizeof other_keys / sizeof *other_keys; i++)
        if (strcmp(key, other_keys[i]) == 0)
            return true;
    return false;
}

static bool read_number(struct lg_spec *spec, const struct number *number, struct lg_error *error)
{
    const json_t *given = json_object_get(spec->document, number->key);
    int64_t value = number->otherwise;
    if (given && !json_is_null(given)) {
        value = json_integer_value(given);
        if (!json_is_integer(given) || value < number->least || value > number->most) {
            lg_fail(error, "%s: an integer from %" PRId64 " to %" PRId64 " is wanted",
                    number->key, number->least, number->most);
            return false;
        }
    } else if (number->presence == REQUIRED || (number->presence == OF_A_RUN && spec->task == LG_RUN)) {
        lg_fail(error, "%s: is missing", number->key);
        return false;
    }
    void *field = (char *)spec + number->offset;
    if (number->size == sizeof(uint32_t))
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = (uint64_t)value;
    return true;
}

static const char *read_text(const json_t *object, const char *key, const char *named,
                             struct lg_error *error)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        lg_fail(error, "%s: a text is wanted", named);
    return text;
}

static bool read_objects(struct lg_spec *spec, struct lg_error *error)
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
        lg_fail(error, "connection: an object is wanted");
        return false;
    }
    if (!json_is_object(workload)) {
        lg_fail(error, "workload: an object with name and params is wanted");
        return false;
    }
    spec->workload = read_text(workload, "name", "workload.name", error);
    spec->params = json_object_get(workload, "params");
    if (spec->workload && !json_is_object(spec->params))
        lg_fail(error, "workload.params: an object is wanted");
    return spec->workload && json_is_object(spec->params);
}

static bool read_mode(struct lg_spec *spec, struct lg_error *error)
{
    const json_t *mode = json_object_get(spec->document, "mode");
    const char *kind = json_string_value(json_object_get(mode, "kind"));
    if (kind && strcmp(kind, "closed") == 0) {
        spec->think_time = json_is_true(json_object_get(mode, "think_time"));
        return true;
    }
    if (!kind || strcmp(kind, "open") != 0) {
        lg_fail(error, "mode.kind: \"closed\" or \"open\" is wanted");
        return false;
    }
    spec->open_loop = true;
    spec->rate_per_s = json_number_value(json_object_get(mode, "rate_per_s"));
    if (!(spec->rate_per_s > 0 && spec->rate_per_s <= 1e9)) {
        lg_fail(error, "mode.rate_per_s: a number above 0 is wanted, 1e9 at most");
        return false;
    }
    const json_t *first = json_object_get(mode, "first_start");
    spec->first_start = json_number_value(first);
    if ((first && !json_is_number(first)) || !(spec->first_start >= 0 && spec->first_start < 1)) {
        lg_fail(error, "mode.first_start: a number from 0 to less than 1 is wanted");
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

/* So many operations of an open loop are so long a time: the next one would start behind it. */
static bool bounded(struct lg_spec *spec, struct lg_error *error)
{
    if (!spec->open_loop || spec->operations == 0)
        return true;
    double duration = (double)spec->operations / spec->rate_per_s * (double)LG_SECOND;
    if (duration > (double)LONGEST_NS) {
        lg_fail(error, "operations: at %g a second they would take more than a year",
                spec->rate_per_s);
        return false;
    }
    spec->duration_ns = (uint64_t)llround(duration);
    spec->duration_ns += spec->duration_ns == 0;
    spec->operations = 0;
    return true;
}

static bool agrees(struct lg_spec *spec, struct lg_error *error)
{
    if (spec->terminals == 0)
        spec->terminals = spec->connections;
    if (spec->all_terminals == 0)
        spec->all_terminals = spec->first_terminal + spec->terminals;
    if (spec->threads > spec->connections)
        lg_fail(error, "threads: %u threads for %u connections: each needs one at least",
                spec->threads, spec->connections);
    else if (spec->terminals < spec->connections)
        lg_fail(error, "terminals: %u terminals leave some of %u connections without work",
                spec->terminals, spec->connections);
    else if ((uint64_t)spec->first_terminal + spec->terminals > spec->all_terminals)
        lg_fail(error, "all_terminals: %u is less than first_terminal + terminals",
                spec->all_terminals);
    else if ((spec->duration_ns == 0) == (spec->operations == 0))
        lg_fail(error, "duration_ns: either it or operations is wanted, and only one of them");
    else
        return bounded(spec, error);
    return false;
}

static bool read_task(struct lg_spec *spec, struct lg_error *error)
{
    static const char *const tasks[] = {"run", "load", "verify"};
    const json_t *given = json_object_get(spec->document, "task");
    const char *task = given ? json_string_value(given) : tasks[LG_RUN];
    for (int i = LG_RUN; task && i <= LG_VERIFY; i++) {
        if (strcmp(task, tasks[i]) == 0) {
            spec->task = (enum lg_task)i;
            return true;
        }
    }
    lg_fail(error, "task: \"run\", \"load\" or \"verify\" is wanted");
    return false;
}

bool lg_spec_read(struct lg_spec *spec, json_t *document, struct lg_error *error)
{
    *spec = (struct lg_spec){.document = document};
    const char *key;
    json_t *value;
    json_object_foreach(document, key, value) {
        if (!known_key(key)) {
            lg_fail(error, "%s: there is no such key", key);
            return false;
        }
    }
    if (!json_is_object(document))
        lg_fail(error, "the spec: a JSON object is wanted");
    else if (json_integer_value(json_object_get(document, "schema")) != 1)
        lg_fail(error, "schema: 1 is wanted");
    else if (read_task(spec, error) && read_objects(spec, error)) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
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

/*
 * The smallest workload: one statement again and again, no data. It shows what the client
 * and the way to the server cost by themselves, and lets the tests drive the core.
 *
 *   params: {"keying_ns": 0, "think_ns": 0}
 *   offers: :terminal, :number (of the call at this terminal, from 1)
 *
 * An answer whose first column is the text "rolled_back", "skipped", "not_found" or "wrong" is
 * taken as such.
 */
#include "../workload.h"

struct ping {
    uint64_t keying_ns, think_ns;
};

static const struct lg_operation operations[] = {
    {"ping", {{"terminal", LG_INT}, {"number", LG_INT}}},
};

static void *ping_open(const struct lg_opening *opening, struct tb_error *error)
{
    const json_t *params = opening->params;
    struct ping *ping = tb_allocate(1, sizeof *ping);
    ping->keying_ns = (uint64_t)json_integer_value(json_object_get(params, "keying_ns"));
    ping->think_ns = (uint64_t)json_integer_value(json_object_get(params, "think_ns"));
    return ping;
}

static void ping_terminal(void *self, struct lg_terminal *terminal)
{
    terminal->values[0] = (struct lg_value){.kind = LG_INT, .integer = terminal->number};
    terminal->values[1] = (struct lg_value){.kind = LG_INT};
}

static void ping_begin(void *self, struct lg_terminal *terminal)
{
    const struct ping *ping = self;
    terminal->values[1].integer++;
    terminal->keying_ns = ping->keying_ns;
    terminal->think_ns = ping->think_ns;
}

static enum lg_status ping_step(void *self, struct lg_terminal *terminal,
                                 const struct lg_result *result)
{
    if (!result)
        return LG_EXECUTE;
    const char *text = result->rows && result->columns ? result->first[0].text : NULL;
    if (text && strcmp(text, "rolled_back") == 0)
        return LG_ROLLED_BACK;
    if (text && strcmp(text, "skipped") == 0)
        return LG_SKIPPED;
    if (text && strcmp(text, "not_found") == 0)
        return LG_NOT_FOUND;
    if (text && strcmp(text, "wrong") == 0) {
        terminal->wrong = "the answer is 'wrong'";
        return LG_WRONG;
    }
    return LG_DONE;
}

static void ping_journal(void *self, struct lg_terminal *terminal,
                         const struct lg_result *result, struct tb_text *line)
{
    tb_text_printf(line, "ping %u %" PRId64 "\n", terminal->number, terminal->values[1].integer);
}

const struct lg_workload lg_ping = {
    .name = "ping",
    .operations = operations,
    .operation_count = sizeof operations / sizeof *operations,
    .open = ping_open,
    .close = free,
    .terminal = ping_terminal,
    .begin = ping_begin,
    .step = ping_step,
    .journal = ping_journal,
};

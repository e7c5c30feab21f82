/* The core's parts that need no event loop: histogram, timers, names in statements, spec. */
#include "check.h"
#include "../worker.h"

TEST(timers_fire_in_their_order)
{
    enum { MANY = 5000 };
    struct lg_timers timers = {.heap = tb_allocate(MANY, sizeof *timers.heap)};
    struct tb_random random;
    static struct lg_user users[MANY];
    tb_random_seed(&random, 1, 1);
    CHECK(lg_timers_next(&timers) == UINT64_MAX);
    for (size_t i = 0; i < MANY; i++)
        lg_timers_add(&timers, (uint64_t)tb_random_between(&random, 0, MANY), &users[i]);
    uint64_t last = 0;
    for (size_t i = 0; i < MANY; i++) {
        uint64_t next = lg_timers_next(&timers);
        struct lg_timer timer = lg_timers_take(&timers);
        CHECK_CASE(timer.due_ns == next && timer.due_ns >= last, i);
        last = timer.due_ns;
        timer.user->attempts++;
    }
    for (size_t i = 0; i < MANY; i++)
        CHECK_CASE(users[i].attempts == 1, i);
    CHECK(timers.count == 0);
    free(timers.heap);
}

TEST(codes_beyond_the_table_are_other)
{
    struct lg_codes codes = {0};
    for (int i = 0; i < 2 * LG_MAX_CODES; i++) {
        char code[16];
        snprintf(code, sizeof code, "%05d", i);
        lg_codes_count(&codes, code, 1);
    }
    uint64_t all = 0;
    for (size_t i = 0; i < codes.count; i++)
        all += codes.of[i].times;
    CHECK(all == 2 * LG_MAX_CODES);
    CHECK(codes.count == LG_MAX_CODES);
    CHECK_TEXT(codes.of[LG_MAX_CODES - 1].code, "other");
    CHECK(codes.of[LG_MAX_CODES - 1].times == LG_MAX_CODES + 1);
}

static uint64_t in_stretch(const struct lg_tally *tally, size_t stretch, struct tb_coarse_hdr *sum)
{
    uint64_t all = 0;
    memset(sum, 0, sizeof *sum);
    lg_tally_latencies(tally, stretch, sum);
    for (size_t i = 0; i < TB_COARSE_COUNTERS; i++)
        all += sum->counts[i];
    return all;
}

/* Two intervals in a histogram: 0 and 1, 2 and 3 (nothing done), 4 and 5, 6. */
TEST(latencies_are_kept_by_interval)
{
    static const struct {
        size_t interval;
        uint64_t latency_ns;
    } done[] = {{0, 3000}, {0, 5}, {1, 3000}, {4, 7000}, {6, UINT64_MAX}};
    static const uint64_t expected[] = {3, 0, 1, 1, 0};
    static struct tb_coarse_hdr sum, alone;
    struct lg_tally *tally = lg_tallies_new(1, 2);
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        lg_tally_done(tally, done[i].interval, done[i].latency_ns);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_CASE(in_stretch(tally, i, &sum) == expected[i], i);
    CHECK(in_stretch(tally, 0, &sum) == 3);
    tb_coarse_hdr_record(&alone, 3000);
    tb_coarse_hdr_record(&alone, 3000);
    tb_coarse_hdr_record(&alone, 5);
    CHECK(memcmp(&sum, &alone, sizeof sum) == 0);
    CHECK(tally->count == 5 && tally->series[0] == 2 && tally->series[1] == 1);
    lg_tallies_free(tally, 1);
}

/* Nothing is done in the first. */
TEST(many_intervals_are_kept)
{
    enum { MANY = 500 };
    static struct tb_coarse_hdr sum;
    struct lg_tally *tally = lg_tallies_new(1, 1);
    for (size_t i = 0; i < MANY; i++)
        for (size_t times = 0; times < i; times++)
            lg_tally_done(tally, i, 1000 * times);
    for (size_t i = 0; i < MANY; i++)
        CHECK_CASE(in_stretch(tally, i, &sum) == i, i);
    lg_tallies_free(tally, 1);
}

/* What was seen is not reported again, also where a counter has wrapped around. */
TEST(seconds_have_the_latencies_since_the_last_one)
{
    static struct lg_live live;
    static unsigned seen[TB_COARSE_COUNTERS];
    static struct tb_coarse_hdr second, alone;
    size_t place = tb_hdr_index(3000) >> TB_COARSE_SHIFT;
    atomic_store(&live.counts[place], UINT_MAX);
    seen[place] = UINT_MAX;
    lg_live_record(&live, 3000);
    lg_live_record(&live, 5);
    lg_live_add(&live, seen, &second);
    tb_coarse_hdr_record(&alone, 3000);
    tb_coarse_hdr_record(&alone, 5);
    CHECK(memcmp(&second, &alone, sizeof second) == 0);
    lg_live_add(&live, seen, &second);
    CHECK(memcmp(&second, &alone, sizeof second) == 0);
}

static const struct lg_operation buy[] = {
    {"buy", {{"item", LG_INT}, {"item_ids", LG_INT_ARRAY}, {"price", LG_CENTS}}},
};
static const struct lg_workload shop = {.name = "shop", .operations = buy, .operation_count = 1};

static json_t *parsed(const char *text)
{
    char json[1024];
    snprintf(json, sizeof json, "%s", text);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    return json_loads(json, 0, NULL);
}

static struct lg_statement *statement_of(const char *sql, struct tb_error *error)
{
    json_t *statements = json_pack("{s:s}", "buy", sql);
    struct lg_statements read;
    bool found = lg_statements_read(&read, statements, &shop, (size_t[]){1}, error);
    if (found) { /* the text is the document's */
        static char kept[1024];
        snprintf(kept, sizeof kept, "%s", sql);
        read.all->sql = kept;
    }
    json_decref(statements);
    return found ? read.all : NULL;
}

TEST(names_are_found_where_they_are_names)
{
    static const char sql[] =
        "SELECT ':item', \"a:item\", `:item`, /* :item */ x::item, ':it''em' -- :item\n"
        "FROM f(:item, :item_ids::int[], :price, :item)";
    struct tb_error error = {""};
    struct lg_statement *statement = statement_of(sql, &error);
    CHECK_TEXT(error.text, "");
    CHECK(statement && statement->parameter_count == 4);
    static const int values[] = {0, 1, 2, 0};
    static const char *const names[] = {":item", ":item_ids", ":price", ":item"};
    for (size_t i = 0; statement && i < statement->parameter_count; i++) {
        const struct lg_parameter *found = &statement->parameters[i];
        CHECK_CASE(found->value == values[i], i);
        CHECK_CASE(found->kind == buy[0].bind_parameters[values[i]].kind, i);
        CHECK_CASE(found->end - found->begin == strlen(names[i]), i);
        CHECK_CASE(memcmp(sql + found->begin, names[i], strlen(names[i])) == 0, i);
    }
    free(statement);
}

TEST(what_a_statement_cannot_have_is_named)
{
    struct tb_error error = {""};
    CHECK(!statement_of("CALL f(:items)", &error));
    CHECK_KEY(error.text, "statements.buy");
    json_t *none = json_object();
    struct lg_statements read;
    CHECK(!lg_statements_read(&read, none, &shop, (size_t[]){1}, &error));
    CHECK_KEY(error.text, "statements.buy");
    CHECK(lg_statements_read(&read, none, &shop, (size_t[]){0}, &error));
    CHECK(read.count == 0 && read.of[0].count == 0);
    lg_statements_free(&read);
    json_decref(none);
}

TEST(an_operation_has_the_number_of_statements_it_requires)
{
    static const struct {
        const char *given;
        size_t required, count; /* count 0: refused */
    } cases[] = {
        {"{'buy': ['a :item', 'b :price', 'c']}", 3, 3},
        {"{'buy': 'one for all'}", 3, 1},
        {"{'buy': ['a', 'b']}", 3, 0},
        {"{'buy': ['a', 'b']}", 1, 0},
        {"{'buy': ['a', 7]}", 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tb_error error = {""};
        struct lg_statements read;
        json_t *given = parsed(cases[i].given);
        bool found = lg_statements_read(&read, given, &shop, &cases[i].required, &error);
        if (!found)
            CHECK_KEY(error.text, "statements.buy");
        CHECK_CASE(found == (cases[i].count > 0), i);
        CHECK_CASE(!found || (read.count == cases[i].count &&
                              read.of[0].count == cases[i].count), i);
        if (found)
            lg_statements_free(&read);
        json_decref(given);
    }
}

static const char whole_spec[] =
    "{'schema': 1, 'backend': 'stub', 'connection': {}, 'workload': {'name': 'ping', "
    "'params': {}}, 'statements': {}, 'threads': 2, 'connections': 4, 'mode': {'kind': "
    "'closed'}, 'ramp_up_ns': 0, 'duration_ns': 1, 'seed': 1}";

static json_t *changed(const char *changes)
{
    json_t *document = parsed(whole_spec), *change = parsed(changes);
    json_object_update(document, change);
    json_decref(change);
    return document;
}

TEST(a_spec_has_defaults)
{
    struct lg_spec spec;
    struct tb_error error = {""};
    CHECK(lg_spec_read(&spec, parsed(whole_spec), &error));
    CHECK_TEXT(error.text, "");
    CHECK(spec.task == LG_RUN && !spec.open_loop && !spec.think_time && !spec.journal);
    CHECK(spec.terminals == 4 && spec.first_terminal == 0 && spec.all_terminals == 4);
    CHECK(spec.series_interval_ns == TB_SECOND && spec.drain_ns == 5 * TB_SECOND);
    CHECK(spec.stall_timeout_ns == 120 * TB_SECOND && spec.operations == 0);
    CHECK(spec.intervals_per_histogram == 1);
    lg_spec_free(&spec);
}

/* The worst stall of a window is measured, however long the window. */
TEST(a_server_may_be_silent_for_a_whole_window)
{
    struct lg_spec spec;
    struct tb_error error = {""};
    CHECK(lg_spec_read(&spec, changed("{'duration_ns': 180000000000}"), &error));
    CHECK(spec.stall_timeout_ns == 180 * TB_SECOND);
    lg_spec_free(&spec);
}

TEST(operations_of_an_open_loop_are_a_time)
{
    struct lg_spec spec;
    struct tb_error error = {""};
    json_t *document = changed("{'mode': {'kind': 'open', 'rate_per_s': 300}, "
                               "'duration_ns': null, 'operations': 100}");
    CHECK(lg_spec_read(&spec, document, &error));
    CHECK(spec.operations == 0 && spec.duration_ns == 333333333);
    lg_spec_free(&spec);
}

TEST(an_invalid_spec_is_refused_by_key)
{
    static const char *const changes[][2] = {
        {"{'treads': 1}", "treads"},
        {"{'schema': 2}", "schema"},
        {"{'task': 'walk'}", "task"},
        {"{'threads': 0}", "threads"},
        {"{'threads': 1.5}", "threads"},
        {"{'threads': 5}", "threads"}, /* of 4 connections */
        {"{'connections': 0}", "connections"},
        {"{'terminals': 3}", "terminals"},
        {"{'all_terminals': 3}", "all_terminals"},
        {"{'operations': 7}", "duration_ns"},
        {"{'duration_ns': null}", "duration_ns"},
        {"{'mode': {'kind': 'ajar'}}", "mode.kind"},
        {"{'mode': {'kind': 'open'}}", "mode.rate_per_s"},
        {"{'mode': {'kind': 'open', 'rate_per_s': 1, 'first_start': 1}}", "mode.first_start"},
        {"{'mode': {'kind': 'open', 'rate_per_s': 1, 'processes': 0}}", "mode.processes"},
        {"{'workload': {'name': 'ping'}}", "workload.params"},
        {"{'connection': null}", "connection"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct lg_spec spec;
        struct tb_error error = {""};
        CHECK_CASE(!lg_spec_read(&spec, changed(changes[i][0]), &error), i);
        CHECK_KEY(error.text, changes[i][1]);
        lg_spec_free(&spec);
    }
}

enum { PROCESSES = 3, LOOPS = 2, DISTANCE_NS = 1000, STARTS = 20 };

/* One of the processes that offer a start per distance together. */
static struct lg_spec one_of_several(unsigned process)
{
    return (struct lg_spec){
        .open_loop = true,
        .threads = LOOPS,
        .rate_per_s = 1e9 / DISTANCE_NS / PROCESSES,
        .first_start = (double)process / PROCESSES,
        .processes = PROCESSES,
    };
}

/*
 * Three processes of two loops each: their starts, put in order, are evenly spaced. The loops of
 * a process have one queue: whichever has a free terminal takes the next start.
 */
TEST(processes_take_turns)
{
    bool taken[PROCESSES * STARTS] = {false};
    for (unsigned process = 0; process < PROCESSES; process++) {
        struct lg_spec spec = one_of_several(process);
        struct lg_run run = {.spec = &spec, .begin_ns = 5, .end_ns = 5 + sizeof taken * DISTANCE_NS};
        CHECK(lg_schedule_open(&run, &run.error));
        struct lg_worker loops[LOOPS] = {{.run = &run}, {.run = &run, .index = 1}};
        struct lg_user user = {.start_ns = 0};
        for (unsigned i = 0; i < STARTS; i++) {
            CHECK_CASE(lg_take_start(&loops[i * i / 3 % LOOPS], &user), i);
            uint64_t start = user.start_ns - run.begin_ns;
            CHECK_CASE(start % DISTANCE_NS == 0, i);
            CHECK_CASE(start / DISTANCE_NS < sizeof taken && !taken[start / DISTANCE_NS], i);
            taken[start / DISTANCE_NS] = true;
        }
        CHECK(!lg_take_start(&loops[0], &user));
        CHECK(loops[0].offered + loops[1].offered == STARTS);
        lg_schedule_close(&run);
    }
}

/* Where processes share a file, a free terminal of any of them takes the next start. */
TEST(processes_of_one_host_have_one_queue)
{
    char shared[] = "/tmp/loadgen-starts-XXXXXX", starts[sizeof shared + 8];
    int file = mkstemp(shared);
    struct lg_spec specs[PROCESSES];
    struct lg_run runs[PROCESSES] = {0};
    struct lg_worker loops[PROCESSES] = {0};
    struct lg_user user = {.start_ns = 0};
    uint64_t end_ns = 5 + PROCESSES * STARTS * DISTANCE_NS;

    CHECK(file >= 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        specs[i] = one_of_several(i);
        specs[i].shared = shared;
        runs[i] = (struct lg_run){
            .spec = &specs[i], .begin_ns = 5, .measure_ns = 5, .end_ns = end_ns};
        loops[i].run = &runs[i];
        CHECK(lg_schedule_open(&runs[i], &runs[i].error));
    }
    for (unsigned i = 0; i < PROCESSES * STARTS / 2; i++) { /* the first process is never free */
        CHECK_CASE(lg_take_start(&loops[1 + i % 2], &user), i);
        CHECK_CASE(user.start_ns == 5 + i * DISTANCE_NS, i);
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        lg_note_backlog(&loops[i]);
    CHECK(loops[0].backlog_end == PROCESSES * STARTS / 2);
    CHECK(loops[1].backlog_end == 0 && loops[2].backlog_end == 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        lg_schedule_close(&runs[i]);
    snprintf(starts, sizeof starts, "%s.starts", shared);
    unlink(starts);
    unlink(shared);
    close(file);
}

/* What no terminal has taken in the ramp-up is left out, and counted by one of the loops. */
TEST(the_window_begins_with_an_empty_queue)
{
    struct lg_spec spec = {.open_loop = true, .threads = 2, .rate_per_s = 1e6};
    struct lg_run run = {.spec = &spec, .begin_ns = 5, .measure_ns = 100005, .end_ns = 200005};
    struct lg_worker loops[] = {{.run = &run}, {.run = &run, .index = 1}};
    struct lg_user user = {.start_ns = 0};
    CHECK(lg_schedule_open(&run, &run.error));
    struct lg_user users[] = {{.place = LG_PAUSING}, {.place = LG_WAITING}, {.place = LG_WORKING}};
    loops[0].users = users;
    loops[0].user_count = 3;
    CHECK(lg_operations_in_flight(&loops[0]) == 2);
    for (unsigned i = 0; i < 10; i++)
        CHECK_CASE(lg_take_start(&loops[i % 2], &user), i);
    lg_leave_ramp_up(&loops[1]);
    lg_leave_ramp_up(&loops[0]);
    CHECK(loops[0].backlog_begin == 0 && loops[1].backlog_begin == 90);
    CHECK(lg_take_start(&loops[0], &user) && user.start_ns == run.measure_ns);
    lg_note_backlog(&loops[0]);
    lg_note_backlog(&loops[1]);
    CHECK(loops[0].backlog_end == 99 && loops[1].backlog_end == 0);
    lg_schedule_close(&run);
}

int main(void)
{
    return checks_failed();
}

/* The parts of TPC-C that need no server: numbers, names, text of rows, validated answers. */
#include "check.h"
#include "../tpcc/population.h"

TEST(nurand_follows_its_formula)
{
    struct tb_random drawn, again;

    tb_random_seed(&drawn, 7, 7);
    again = drawn;
    for (int i = 0; i < 1000; i++) {
        int64_t a = tb_random_between(&again, 0, 1023);
        int64_t b = tb_random_between(&again, 1, 3000);

        CHECK(lg_tpcc_nurand(&drawn, 1023, 1, 3000, 259) == ((a | b) + 259) % 3000 + 1);
    }
}

TEST(c_run_keeps_its_distance_from_c_load)
{
    int distinct[256] = {0};

    for (uint64_t seed = 0; seed < 2000; seed++) {
        int32_t c_load = lg_tpcc_c_load(seed % 50);
        struct lg_tpcc_constants c = lg_tpcc_c_run(seed, c_load);
        int delta = abs(c.c_last - c_load);

        CHECK(c_load >= 0 && c_load <= 255 && c.c_last >= 0 && c.c_last <= 255);
        CHECK(delta >= 65 && delta <= 119 && delta != 96 && delta != 112);
        CHECK(c.c_id >= 0 && c.c_id <= 1023 && c.ol_i_id >= 0 && c.ol_i_id <= 8191);
        CHECK(lg_tpcc_c_run(seed, c_load).c_last == c.c_last);
        distinct[c.c_last] = 1;
    }

    int different = 0;

    for (int i = 0; i < 256; i++)
        different += distinct[i];
    CHECK(different > 128);
    for (int32_t c_load = 0; c_load <= 255; c_load++) /* each has a partner */
        CHECK(lg_tpcc_c_delta_allowed(c_load, lg_tpcc_c_run(9, c_load).c_last));
    CHECK(!lg_tpcc_c_delta_allowed(0, 64) && lg_tpcc_c_delta_allowed(0, 65));
    CHECK(!lg_tpcc_c_delta_allowed(100, 4) && !lg_tpcc_c_delta_allowed(112, 0));
    CHECK(lg_tpcc_c_delta_allowed(119, 0) && !lg_tpcc_c_delta_allowed(120, 0));
}

TEST(last_names_are_the_specifications)
{
    char name[TPCC_LAST_NAME_BYTES];

    /* Clause 4.3.2.3's own example is 371. */
    CHECK(lg_tpcc_last_name(371, name) == 13);
    CHECK_TEXT(name, "PRICALLYOUGHT");
    lg_tpcc_last_name(0, name);
    CHECK_TEXT(name, "BARBARBAR");
    lg_tpcc_last_name(40, name);
    CHECK_TEXT(name, "BARPRESBAR");
    CHECK(lg_tpcc_last_name(777, name) == 15);
    CHECK_TEXT(name, "CALLYCALLYCALLY");
}

static void check_field(char *end, char *field, const char *expected)
{
    CHECK(end[-1] == '\t');
    end[-1] = '\0';
    CHECK_TEXT(field, expected);
}

TEST(numbers_are_written_as_text)
{
    char field[64];

    check_field(lg_put_integer(field, 0), field, "0");
    check_field(lg_put_integer(field, 9), field, "9");
    check_field(lg_put_integer(field, 10), field, "10");
    check_field(lg_put_integer(field, 12345), field, "12345");
    check_field(lg_put_integer(field, -100), field, "-100");
    check_field(lg_put_integer(field, INT64_MAX), field, "9223372036854775807");
    check_field(lg_put_integer(field, INT64_MIN), field, "-9223372036854775808");
    check_field(lg_put_decimal(field, 0, 2), field, "0.00");
    check_field(lg_put_decimal(field, 7, 2), field, "0.07");
    check_field(lg_put_decimal(field, 999999, 2), field, "9999.99");
    check_field(lg_put_decimal(field, 1203, 4), field, "0.1203");
    CHECK(lg_write_digits(field, 42, 4) == field + 4);
    CHECK(memcmp(field, "0042", 4) == 0);
}

static bool refuse(void *context, const char *rows, size_t length)
{
    int *calls = context;

    CHECK(length > 0);
    ++*calls;
    return false;
}

TEST(a_sink_that_fails_is_not_asked_again)
{
    char buffer[2 * LG_ROW_BYTES];
    int calls = 0;
    struct lg_rows rows = {
        .buffer = buffer, .capacity = sizeof buffer, .sink = refuse, .context = &calls};

    for (int i = 0; i < 1000; i++)
        lg_row_end(&rows, lg_put_integer(lg_row_begin(&rows), 1234567));
    CHECK(!lg_rows_flush(&rows));
    CHECK(calls == 1);
}

static struct lg_result answer(size_t rows, const char *first, const char *second)
{
    struct lg_result result = {.outcome = LG_OK, .rows = rows, .columns = 2};

    result.first[0].text = first;
    result.first[0].length = first ? strlen(first) : 0;
    result.first[1].text = second;
    result.first[1].length = second ? strlen(second) : 0;
    return result;
}

struct validated {
    int transaction;
    size_t rows;
    const char *first, *second;
    enum lg_status status;
};

/* Values all 0, no customer requested by number. */
static const struct validated answers[] = {
    {TPCC_NEW_ORDER, 1, "3001", "12.50", LG_DONE},
    {TPCC_NEW_ORDER, 15, "2147483647", "12.50", LG_DONE},
    {TPCC_NEW_ORDER, 1, "3000", "12.50", LG_WRONG}, /* an order of the initial data */
    {TPCC_NEW_ORDER, 1, NULL, NULL, LG_WRONG},      /* rolled back, and should not */
    {TPCC_NEW_ORDER, 0, NULL, NULL, LG_WRONG},
    {TPCC_NEW_ORDER, 1, "3001x", NULL, LG_WRONG},
    {TPCC_NEW_ORDER, 1, "", NULL, LG_WRONG},
    {TPCC_NEW_ORDER, 1, "99999999999999999999", NULL, LG_WRONG},
    {TPCC_PAYMENT, 1, "1", NULL, LG_DONE},
    {TPCC_PAYMENT, 1, "3000", NULL, LG_DONE},
    {TPCC_PAYMENT, 1, "3001", NULL, LG_WRONG},
    {TPCC_PAYMENT, 1, "0", NULL, LG_WRONG},
    {TPCC_PAYMENT, 0, "1", NULL, LG_WRONG},
    {TPCC_ORDER_STATUS, 7, "12", "3004", LG_DONE},
    {TPCC_ORDER_STATUS, 7, "12", NULL, LG_WRONG},
    {TPCC_ORDER_STATUS, 7, "12", "0", LG_WRONG},
    {TPCC_DELIVERY, 1, "10", "1,2,3,4,5,6,7,8,9,10", LG_DONE},
    {TPCC_DELIVERY, 1, "9", "1,2,3,4,5,6,7,8,0,10", LG_SKIPPED},
    {TPCC_DELIVERY, 1, "0", "0,0,0,0,0,0,0,0,0,0", LG_SKIPPED},
    {TPCC_DELIVERY, 1, "10", "1,2,3,4,5,6,7,8,0,10", LG_WRONG}, /* counts another number */
    {TPCC_DELIVERY, 1, "9", "1,2,3,4,5,6,7,8,9", LG_WRONG},
    {TPCC_DELIVERY, 1, "10", "1,2,3,4,5,6,7,8,9,10,11", LG_WRONG},
    {TPCC_DELIVERY, 1, "10", "1,2,3,4,5,6,7,8,9,-1", LG_WRONG},
    {TPCC_DELIVERY, 1, "10", NULL, LG_WRONG},
    {TPCC_DELIVERY, 1, "11", "1,2,3,4,5,6,7,8,9,10", LG_WRONG},
    {TPCC_STOCK_LEVEL, 1, "0", NULL, LG_DONE},
    {TPCC_STOCK_LEVEL, 1, "300", NULL, LG_DONE},
    {TPCC_STOCK_LEVEL, 1, "301", NULL, LG_WRONG},
    {TPCC_STOCK_LEVEL, 1, NULL, NULL, LG_WRONG},
};

TEST(wrong_answers_are_noticed)
{
    struct lg_tpcc_terminal own = {0};

    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct lg_terminal terminal = {.own = &own, .operation = answers[i].transaction};
        struct lg_result result = answer(answers[i].rows, answers[i].first, answers[i].second);

        terminal.values[PAYMENT_C].null = terminal.operation == TPCC_PAYMENT;
        if (terminal.operation == TPCC_ORDER_STATUS)
            terminal.values[ORDER_STATUS_C].null = true;
        CHECK_CASE(lg_tpcc_check(&terminal, &result) == answers[i].status, i);
        CHECK_CASE((terminal.wrong != NULL) == (answers[i].status == LG_WRONG), i);
    }
}

TEST(rollback_belongs_to_an_unused_item)
{
    struct lg_tpcc_terminal own = {0};
    struct lg_terminal terminal = {.own = &own, .operation = TPCC_NEW_ORDER};
    struct lg_result rolled_back = answer(1, NULL, NULL), committed = answer(1, "3001", NULL);
    struct lg_result undone = {.outcome = LG_OK, .code = "TB001"};
    struct lg_result nothing = {.outcome = LG_OK};

    terminal.values[NEW_ORDER_ROLLBACK].integer = 1;
    CHECK(lg_tpcc_check(&terminal, &rolled_back) == LG_ROLLED_BACK);
    CHECK(lg_tpcc_check(&terminal, &undone) == LG_ROLLED_BACK);
    CHECK(lg_tpcc_check(&terminal, &nothing) == LG_WRONG);
    CHECK(lg_tpcc_check(&terminal, &committed) == LG_WRONG);
    terminal.values[NEW_ORDER_ROLLBACK].integer = 0;
    CHECK(lg_tpcc_check(&terminal, &undone) == LG_WRONG);
}

TEST(another_customer_than_asked_is_wrong)
{
    struct lg_tpcc_terminal own = {0};
    struct lg_terminal terminal = {.own = &own, .operation = TPCC_PAYMENT};
    struct lg_result right = answer(1, "17", NULL), other = answer(1, "18", NULL);

    terminal.values[PAYMENT_C].integer = 17;
    CHECK(lg_tpcc_check(&terminal, &right) == LG_DONE);
    CHECK(lg_tpcc_check(&terminal, &other) == LG_WRONG);
    CHECK_TEXT(terminal.wrong, "payment answered 18 where the customer's number belongs");
}

static void check_journal(struct lg_terminal *terminal, const struct lg_result *result,
                          const char *expected)
{
    struct tb_text line = {0};

    enum lg_status status = lg_tpcc_check(terminal, result);

    CHECK(status == LG_DONE || status == LG_SKIPPED);
    lg_tpcc_journal(terminal, result, &line);
    tb_text_add(&line, "", 1);
    CHECK_TEXT(line.bytes, expected);
    free(line.bytes);
}

TEST(the_journal_tells_what_was_committed)
{
    struct lg_tpcc_terminal own = {0};
    struct lg_terminal new_order = {.own = &own, .operation = TPCC_NEW_ORDER};
    struct lg_terminal payment = {.own = &own, .operation = TPCC_PAYMENT};
    struct lg_terminal delivery = {.own = &own, .operation = TPCC_DELIVERY};
    struct lg_terminal stock_level = {.own = &own, .operation = TPCC_STOCK_LEVEL};
    struct lg_result order = answer(1, "3456", NULL), customer = answer(1, "21", NULL),
                     orders = answer(1, "9", "1,2,3,4,5,6,7,8,0,10"), low = answer(1, "4", NULL);

    new_order.values[NEW_ORDER_W].integer = 2;
    new_order.values[NEW_ORDER_D].integer = 7;
    new_order.values[NEW_ORDER_C].integer = 99;
    new_order.values[NEW_ORDER_OL_CNT].integer = 11;
    check_journal(&new_order, &order, "N 2 7 3456 99 11\n");
    payment.values[PAYMENT_W].integer = 1;
    payment.values[PAYMENT_D].integer = 2;
    payment.values[PAYMENT_C_W].integer = 3;
    payment.values[PAYMENT_C_D].integer = 4;
    payment.values[PAYMENT_C].null = true; /* by name: the answer says who it was */
    payment.values[PAYMENT_AMOUNT].integer = 12345;
    check_journal(&payment, &customer, "P 1 2 3 4 21 12345\n");
    delivery.values[DELIVERY_W].integer = 5;
    delivery.values[DELIVERY_CARRIER].integer = 6;
    check_journal(&delivery, &orders, "D 5 6 1,2,3,4,5,6,7,8,0,10\n");
    check_journal(&stock_level, &low, "");
}

static void check_params(const char *text, const char *error_holds)
{
    json_t *params = json_loads(text, 0, NULL);
    struct lg_tpcc_params read;
    struct tb_error error = {""};

    CHECK(params != NULL);
    CHECK_CASE(lg_tpcc_params_read(&read, params, &error) == (error_holds == NULL), 0);
    if (error_holds)
        CHECK(strstr(error.text, error_holds) != NULL);
    json_decref(params);
}

TEST(params_are_checked)
{
    check_params("{\"warehouses\": 1, \"data_seed\": 0}", NULL);
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": \"deck\","
                 " \"home\": \"fixed\", \"procedures\": \"hammerdb\"}", NULL);
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": {\"payment\": 0.5}}", NULL);
    check_params("{\"data_seed\": 0}", "warehouses");
    check_params("{\"warehouses\": 0, \"data_seed\": 0}", "warehouses");
    check_params("{\"warehouses\": 1}", "data_seed");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"home\": \"away\"}", "home");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"home\": 7}", "home");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": {\"pay\": 1}}", "mix.pay");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": {\"payment\": -1}}", "mix");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": {\"payment\": 0}}", "mix");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"mix\": 7}", "mix");
    check_params("{\"warehouses\": 1, \"data_seed\": 0, \"wharehouses\": 2}", "wharehouses");
}

int main(void)
{
    return checks_failed();
}

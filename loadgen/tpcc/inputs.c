/* Input of the five transactions: the values that their statements may use by name. */
#include "tpcc.h"

#define INTEGER(place, text) [place] = {text, LG_INT}

const struct lg_operation lg_tpcc_operations[TPCC_TRANSACTIONS] = {
    [TPCC_NEW_ORDER] = {"new_order",
                        {INTEGER(NEW_ORDER_W, "w_id"), INTEGER(NEW_ORDER_D, "d_id"),
                         INTEGER(NEW_ORDER_C, "c_id"), INTEGER(NEW_ORDER_OL_CNT, "ol_cnt"),
                         INTEGER(NEW_ORDER_ALL_LOCAL, "all_local"),
                         INTEGER(NEW_ORDER_ROLLBACK, "rollback"),
                         INTEGER(NEW_ORDER_WAREHOUSES, "warehouses"),
                         [NEW_ORDER_ITEMS] = {"item_ids", LG_INT_ARRAY},
                         [NEW_ORDER_SUPPLY] = {"supply_w_ids", LG_INT_ARRAY},
                         [NEW_ORDER_QUANTITIES] = {"quantities", LG_INT_ARRAY}}},
    [TPCC_PAYMENT] = {"payment",
                      {INTEGER(PAYMENT_W, "w_id"), INTEGER(PAYMENT_D, "d_id"),
                       INTEGER(PAYMENT_C_W, "c_w_id"), INTEGER(PAYMENT_C_D, "c_d_id"),
                       INTEGER(PAYMENT_C, "c_id"), [PAYMENT_C_LAST] = {"c_last", LG_TEXT},
                       INTEGER(PAYMENT_BY_NAME, "by_name"),
                       [PAYMENT_AMOUNT] = {"amount", LG_CENTS},
                       INTEGER(PAYMENT_WAREHOUSES, "warehouses")}},
    [TPCC_ORDER_STATUS] = {"order_status",
                           {INTEGER(ORDER_STATUS_W, "w_id"), INTEGER(ORDER_STATUS_D, "d_id"),
                            INTEGER(ORDER_STATUS_C, "c_id"),
                            [ORDER_STATUS_C_LAST] = {"c_last", LG_TEXT},
                            INTEGER(ORDER_STATUS_BY_NAME, "by_name")}},
    [TPCC_DELIVERY] = {"delivery",
                       {INTEGER(DELIVERY_W, "w_id"), INTEGER(DELIVERY_CARRIER, "carrier_id")}},
    [TPCC_STOCK_LEVEL] = {"stock_level",
                          {INTEGER(STOCK_LEVEL_W, "w_id"), INTEGER(STOCK_LEVEL_D, "d_id"),
                           INTEGER(STOCK_LEVEL_THRESHOLD, "threshold")}},
};

static int32_t draw(struct lg_terminal *terminal, int32_t low, int32_t high)
{
    return (int32_t)tb_random_between(&terminal->random, low, high);
}

static void bind_integer(struct lg_terminal *terminal, int place, int64_t number)
{
    terminal->values[place] = (struct lg_value){.kind = LG_INT, .integer = number};
}

static void bind_array(struct lg_terminal *terminal, int place, const int32_t *integers,
                        int count)
{
    terminal->values[place] = (struct lg_value){
        .kind = LG_INT_ARRAY, .integers = integers, .count = (size_t)count};
}

static int32_t draw_home(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    const struct lg_tpcc_terminal *own = terminal->own;

    return own->home_w ? own->home_w : draw(terminal, 1, tpcc->params.warehouses);
}

/* Any warehouse but the home one, each as likely; the home one where there is no other. */
static int32_t draw_remote(const struct lg_tpcc *tpcc, struct lg_terminal *terminal, int32_t home)
{
    if (tpcc->params.warehouses == 1)
        return home;

    int32_t other = draw(terminal, 1, tpcc->params.warehouses - 1);

    return other < home ? other : other + 1;
}

static void draw_new_order(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    struct lg_tpcc_terminal *own = terminal->own;
    int32_t home = draw_home(tpcc, terminal);
    int32_t lines = draw(terminal, TPCC_MIN_LINES, TPCC_MAX_LINES);
    bool rollback = draw(terminal, 1, 100) == 1;
    bool all_local = true;

    for (int i = 0; i < lines; i++) {
        bool remote = draw(terminal, 1, 100) == 1;

        own->items[i] = lg_tpcc_draw_item(&terminal->random, &tpcc->constants);
        own->supply[i] = remote ? draw_remote(tpcc, terminal, home) : home;
        own->quantities[i] = draw(terminal, 1, 10);
        all_local = all_local && own->supply[i] == home;
    }
    if (rollback) /* "an unused item number" (clause 2.4.1.5) */
        own->items[lines - 1] = TPCC_ITEMS + 1;
    bind_integer(terminal, NEW_ORDER_W, home);
    bind_integer(terminal, NEW_ORDER_D, draw(terminal, 1, TPCC_DISTRICTS));
    bind_integer(terminal, NEW_ORDER_C,
                  lg_tpcc_draw_customer(&terminal->random, &tpcc->constants));
    bind_integer(terminal, NEW_ORDER_OL_CNT, lines);
    bind_integer(terminal, NEW_ORDER_ALL_LOCAL, all_local);
    bind_integer(terminal, NEW_ORDER_ROLLBACK, rollback);
    bind_integer(terminal, NEW_ORDER_WAREHOUSES, tpcc->params.warehouses);
    bind_array(terminal, NEW_ORDER_ITEMS, own->items, lines);
    bind_array(terminal, NEW_ORDER_SUPPLY, own->supply, lines);
    bind_array(terminal, NEW_ORDER_QUANTITIES, own->quantities, lines);
}

/* The customer: 60 % by last name, else by number (clauses 2.5.1.2, 2.6.1.2). */
static void bind_customer(const struct lg_tpcc *tpcc, struct lg_terminal *terminal, int id_place,
                           int name_place, int by_name_place)
{
    struct lg_tpcc_terminal *own = terminal->own;
    bool by_name = draw(terminal, 1, 100) <= 60;
    struct lg_value id = {.kind = LG_INT, .null = by_name};
    struct lg_value name = {.kind = LG_TEXT, .null = !by_name};

    if (by_name) {
        int32_t number = lg_tpcc_draw_last_name(&terminal->random, tpcc->constants.c_last);

        name.length = lg_tpcc_last_name(number, own->last_name);
        name.text = own->last_name;
    } else {
        id.integer = lg_tpcc_draw_customer(&terminal->random, &tpcc->constants);
    }
    terminal->values[id_place] = id;
    terminal->values[name_place] = name;
    bind_integer(terminal, by_name_place, by_name);
}

static void draw_payment(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    int32_t home = draw_home(tpcc, terminal);
    int32_t district = draw(terminal, 1, TPCC_DISTRICTS);
    int32_t customer_w = home, customer_d = district;

    if (draw(terminal, 1, 100) > 85) {
        customer_d = draw(terminal, 1, TPCC_DISTRICTS);
        customer_w = draw_remote(tpcc, terminal, home);
    }
    bind_integer(terminal, PAYMENT_W, home);
    bind_integer(terminal, PAYMENT_D, district);
    bind_integer(terminal, PAYMENT_C_W, customer_w);
    bind_integer(terminal, PAYMENT_C_D, customer_d);
    bind_customer(tpcc, terminal, PAYMENT_C, PAYMENT_C_LAST, PAYMENT_BY_NAME);
    terminal->values[PAYMENT_AMOUNT] =
        (struct lg_value){.kind = LG_CENTS, .integer = draw(terminal, 100, 500000)};
    bind_integer(terminal, PAYMENT_WAREHOUSES, tpcc->params.warehouses);
}

static void draw_order_status(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    bind_integer(terminal, ORDER_STATUS_W, draw_home(tpcc, terminal));
    bind_integer(terminal, ORDER_STATUS_D, draw(terminal, 1, TPCC_DISTRICTS));
    bind_customer(tpcc, terminal, ORDER_STATUS_C, ORDER_STATUS_C_LAST, ORDER_STATUS_BY_NAME);
}

static void draw_delivery(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    bind_integer(terminal, DELIVERY_W, draw_home(tpcc, terminal));
    bind_integer(terminal, DELIVERY_CARRIER, draw(terminal, 1, TPCC_CARRIERS));
}

static void draw_stock_level(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    const struct lg_tpcc_terminal *own = terminal->own;

    bind_integer(terminal, STOCK_LEVEL_W, draw_home(tpcc, terminal));
    bind_integer(terminal, STOCK_LEVEL_D,
                  own->home_d ? own->home_d : draw(terminal, 1, TPCC_DISTRICTS));
    bind_integer(terminal, STOCK_LEVEL_THRESHOLD, draw(terminal, 10, 20));
}

void lg_tpcc_draw_inputs(const struct lg_tpcc *tpcc, struct lg_terminal *terminal)
{
    static void (*const draw_by_transaction[TPCC_TRANSACTIONS])(const struct lg_tpcc *,
                                                                struct lg_terminal *) = {
        [TPCC_NEW_ORDER] = draw_new_order,       [TPCC_PAYMENT] = draw_payment,
        [TPCC_ORDER_STATUS] = draw_order_status, [TPCC_DELIVERY] = draw_delivery,
        [TPCC_STOCK_LEVEL] = draw_stock_level,
    };

    draw_by_transaction[terminal->operation](tpcc, terminal);
}

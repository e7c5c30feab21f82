/*
 * The rows of the nine tables: see population.h.
 *
 * Orders and their lines go to two tables, in two passes: both draw the heads of a
 * warehouse's orders from the same stream (draw_orders), so that the lines agree with
 * o_ol_cnt though neither pass knows of the other.
 */
#include "population.h"

/* One stream a table and warehouse. */
enum table_stream {
    STREAM_ITEM = 16,
    STREAM_WAREHOUSE,
    STREAM_STOCK,
    STREAM_DISTRICT,
    STREAM_CUSTOMER,
    STREAM_HISTORY,
    STREAM_ORDERS,
    STREAM_ORDER_LINE,
};

/* The head of an order, as far as it is random. */
struct order {
    int16_t customer;
    int8_t carrier;
    int8_t lines;
};

void lg_population_init(struct lg_population *population, uint64_t data_seed)
{
    population->seed = data_seed;
    population->c_load = lg_tpcc_c_load(data_seed);
    lg_alphabet_fill(&population->alphabet);
}

static struct tb_random stream_of(const struct lg_population *population,
                                  enum table_stream table, int32_t warehouse)
{
    struct tb_random random;

    tb_random_seed(&random, population->seed, ((uint64_t)table << 32) | (uint32_t)warehouse);
    return random;
}

/* "random a-string [low … high]" (clause 4.3.2.2) */
static char *put_string(char *at, struct tb_random *random, const struct lg_population *population,
                        int low, int high)
{
    size_t length = (size_t)tb_random_between(random, low, high);

    return lg_put_alphanumeric(at, random, &population->alphabet, length);
}

/* I_DATA and S_DATA: [26 … 50] characters, "ORIGINAL" somewhere in them where `original`. */
static char *put_data(char *at, struct tb_random *random, const struct lg_population *population,
                      bool original)
{
    char *end = put_string(at, random, population, 26, 50);

    if (original) {
        int64_t length = end - at - 1;

        memcpy(at + tb_random_between(random, 0, length - 8), "ORIGINAL", 8);
    }
    return end;
}

/*
 * Chooses `left` of the `of` rows still to come: called for each row, exactly as many are
 * chosen, each as likely as the other ("10% of the rows, selected at random").
 */
struct choice {
    int32_t left, of;
};

static bool choose(struct choice *choice, struct tb_random *random)
{
    bool chosen = tb_random_between(random, 1, choice->of) <= choice->left;

    choice->of--;
    choice->left -= chosen;
    return chosen;
}

/* Streets, city, state and zip (clause 4.3.2.7: four digits, then 11111). */
static char *put_address(char *at, struct tb_random *random,
                         const struct lg_population *population)
{
    at = put_string(at, random, population, 10, 20);
    at = put_string(at, random, population, 10, 20);
    at = put_string(at, random, population, 10, 20);
    at = lg_put_alphanumeric(at, random, &population->alphabet, 2);
    at = lg_write_digits(at, (uint64_t)tb_random_between(random, 0, 9999), 4);
    return lg_put_literal(at, "11111");
}

/* The number of a row within its district, and where that is. */
static char *put_place(char *at, int32_t number, int32_t d, int32_t w)
{
    at = lg_put_integer(at, number);
    at = lg_put_integer(at, d);
    return lg_put_integer(at, w);
}

static void write_item(const struct lg_population *population, struct lg_rows *rows,
                       int32_t first, int32_t last)
{
    struct tb_random random = stream_of(population, STREAM_ITEM, 0);
    struct choice original = {TPCC_ITEMS / 10, TPCC_ITEMS};

    for (int32_t id = 1; id <= TPCC_ITEMS && !rows->failed; id++) {
        char *at = lg_row_begin(rows);

        at = lg_put_integer(at, id);
        at = lg_put_integer(at, tb_random_between(&random, 1, 10000));
        at = put_string(at, &random, population, 14, 24);
        at = lg_put_decimal(at, tb_random_between(&random, 100, 10000), 2);
        at = put_data(at, &random, population, choose(&original, &random));
        lg_row_end(rows, at);
    }
}

static void write_warehouse(const struct lg_population *population, struct lg_rows *rows,
                            int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last && !rows->failed; w++) {
        struct tb_random random = stream_of(population, STREAM_WAREHOUSE, w);
        char *at = lg_row_begin(rows);

        at = lg_put_integer(at, w);
        at = put_string(at, &random, population, 6, 10);
        at = put_address(at, &random, population);
        at = lg_put_decimal(at, tb_random_between(&random, 0, 2000), 4);
        at = lg_put_literal(at, "300000.00");
        lg_row_end(rows, at);
    }
}

static void write_district(const struct lg_population *population, struct lg_rows *rows,
                           int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last && !rows->failed; w++) {
        struct tb_random random = stream_of(population, STREAM_DISTRICT, w);

        for (int32_t d = 1; d <= TPCC_DISTRICTS; d++) {
            char *at = lg_row_begin(rows);

            at = lg_put_integer(at, d);
            at = lg_put_integer(at, w);
            at = put_string(at, &random, population, 6, 10);
            at = put_address(at, &random, population);
            at = lg_put_decimal(at, tb_random_between(&random, 0, 2000), 4);
            at = lg_put_literal(at, "30000.00");
            at = lg_put_integer(at, TPCC_ORDERS + 1);
            lg_row_end(rows, at);
        }
    }
}

static void write_stock(const struct lg_population *population, struct lg_rows *rows,
                        int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last; w++) {
        struct tb_random random = stream_of(population, STREAM_STOCK, w);
        struct choice original = {TPCC_STOCK / 10, TPCC_STOCK};

        for (int32_t id = 1; id <= TPCC_STOCK && !rows->failed; id++) {
            char *at = lg_row_begin(rows);

            at = lg_put_integer(at, id);
            at = lg_put_integer(at, w);
            at = lg_put_integer(at, tb_random_between(&random, 10, 100));
            for (int i = 0; i < TPCC_DISTRICTS; i++) /* s_dist_01 … s_dist_10 */
                at = lg_put_alphanumeric(at, &random, &population->alphabet, 24);
            at = lg_put_literal(at, "0\t0\t0"); /* s_ytd, s_order_cnt, s_remote_cnt */
            at = put_data(at, &random, population, choose(&original, &random));
            lg_row_end(rows, at);
        }
    }
}

static char *put_customer_name(char *at, struct tb_random *random,
                               const struct lg_population *population, int32_t id)
{
    char last[TPCC_LAST_NAME_BYTES];
    /* Each name once, then skewed (clause 4.3.3.1). */
    int32_t number =
        id <= TPCC_LAST_NAMES ? id - 1 : lg_tpcc_draw_last_name(random, population->c_load);

    at = put_string(at, random, population, 8, 16);
    at = lg_put_literal(at, "OE");
    return lg_put_bytes(at, last, lg_tpcc_last_name(number, last));
}

static void write_customer_row(const struct lg_population *population, struct lg_rows *rows,
                               struct tb_random *random, int32_t w, int32_t d, int32_t id,
                               bool bad_credit)
{
    char *at = lg_row_begin(rows);

    at = put_place(at, id, d, w);
    at = put_customer_name(at, random, population, id);
    at = put_address(at, random, population);
    at = lg_write_digits(at, (uint64_t)tb_random_between(random, 0, 9999999999999999), 16);
    *at++ = '\t';
    at = lg_put_literal(at, TPCC_ENTRY_DATE);
    at = lg_put_bytes(at, bad_credit ? "BC" : "GC", 2);
    at = lg_put_literal(at, "50000.00");
    at = lg_put_decimal(at, tb_random_between(random, 0, 5000), 4);
    /* c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt */
    at = lg_put_literal(at, "-10.00\t10.00\t1\t0");
    at = put_string(at, random, population, 300, 500);
    lg_row_end(rows, at);
}

static void write_customer(const struct lg_population *population, struct lg_rows *rows,
                           int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last; w++) {
        struct tb_random random = stream_of(population, STREAM_CUSTOMER, w);

        for (int32_t d = 1; d <= TPCC_DISTRICTS; d++) {
            struct choice bad_credit = {TPCC_CUSTOMERS / 10, TPCC_CUSTOMERS};

            for (int32_t id = 1; id <= TPCC_CUSTOMERS && !rows->failed; id++)
                write_customer_row(population, rows, &random, w, d, id,
                                   choose(&bad_credit, &random));
        }
    }
}

static void write_history(const struct lg_population *population, struct lg_rows *rows,
                          int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last; w++) {
        struct tb_random random = stream_of(population, STREAM_HISTORY, w);

        for (int32_t customer = 0; customer < TPCC_DISTRICTS * TPCC_CUSTOMERS && !rows->failed;
             customer++) {
            int32_t d = customer / TPCC_CUSTOMERS + 1;
            char *at = lg_row_begin(rows);

            at = put_place(at, customer % TPCC_CUSTOMERS + 1, d, w);
            at = lg_put_integer(at, d);
            at = lg_put_integer(at, w);
            at = lg_put_literal(at, TPCC_ENTRY_DATE "\t10.00"); /* h_date, h_amount */
            at = put_string(at, &random, population, 12, 24);
            lg_row_end(rows, at);
        }
    }
}

/* The heads of a district's orders; a permutation gives each customer one order. */
static void draw_orders(struct tb_random *random, struct order orders[TPCC_ORDERS])
{
    for (int i = 0; i < TPCC_ORDERS; i++) {
        int j = (int)tb_random_between(random, 0, i);

        orders[i].customer = orders[j].customer;
        orders[j].customer = (int16_t)(i + 1);
    }
    for (int i = 0; i < TPCC_ORDERS; i++) {
        orders[i].carrier = (int8_t)tb_random_between(random, 1, TPCC_CARRIERS);
        orders[i].lines = (int8_t)tb_random_between(random, TPCC_MIN_LINES, TPCC_MAX_LINES);
    }
}

static void write_orders(const struct lg_population *population, struct lg_rows *rows,
                         int32_t first, int32_t last)
{
    struct order orders[TPCC_ORDERS] = {0};

    for (int32_t w = first; w <= last; w++) {
        struct tb_random random = stream_of(population, STREAM_ORDERS, w);

        for (int32_t d = 1; d <= TPCC_DISTRICTS; d++) {
            draw_orders(&random, orders);
            for (int32_t id = 1; id <= TPCC_ORDERS && !rows->failed; id++) {
                const struct order *order = &orders[id - 1];
                char *at = lg_row_begin(rows);

                at = put_place(at, id, d, w);
                at = lg_put_integer(at, order->customer);
                at = lg_put_literal(at, TPCC_ENTRY_DATE);
                at = id < TPCC_FIRST_UNDELIVERED ? lg_put_integer(at, order->carrier)
                                                 : lg_put_null(at);
                at = lg_put_integer(at, order->lines);
                at = lg_put_literal(at, "1"); /* o_all_local */
                lg_row_end(rows, at);
            }
        }
    }
}

static void write_lines(const struct lg_population *population, struct lg_rows *rows,
                        struct tb_random *random, int32_t w, int32_t d, int32_t order, int lines)
{
    bool delivered = order < TPCC_FIRST_UNDELIVERED;

    for (int number = 1; number <= lines; number++) {
        char *at = lg_row_begin(rows);

        at = put_place(at, order, d, w);
        at = lg_put_integer(at, number);
        at = lg_put_integer(at, tb_random_between(random, 1, TPCC_ITEMS));
        at = lg_put_integer(at, w);
        if (delivered) { /* ol_delivery_d, ol_quantity, ol_amount */
            at = lg_put_literal(at, TPCC_ENTRY_DATE "\t5\t0.00");
        } else {
            at = lg_put_literal(at, "\\N\t5");
            at = lg_put_decimal(at, tb_random_between(random, 1, 999999), 2);
        }
        at = lg_put_alphanumeric(at, random, &population->alphabet, 24);
        lg_row_end(rows, at);
    }
}

static void write_order_line(const struct lg_population *population, struct lg_rows *rows,
                             int32_t first, int32_t last)
{
    struct order orders[TPCC_ORDERS] = {0};

    for (int32_t w = first; w <= last; w++) {
        struct tb_random heads = stream_of(population, STREAM_ORDERS, w);
        struct tb_random random = stream_of(population, STREAM_ORDER_LINE, w);

        for (int32_t d = 1; d <= TPCC_DISTRICTS; d++) {
            draw_orders(&heads, orders);
            for (int32_t id = 1; id <= TPCC_ORDERS && !rows->failed; id++)
                write_lines(population, rows, &random, w, d, id, orders[id - 1].lines);
        }
    }
}

static void write_new_order(const struct lg_population *population, struct lg_rows *rows,
                            int32_t first, int32_t last)
{
    for (int32_t w = first; w <= last; w++) {
        for (int32_t d = 1; d <= TPCC_DISTRICTS; d++) {
            for (int32_t id = TPCC_FIRST_UNDELIVERED; id <= TPCC_ORDERS && !rows->failed; id++) {
                char *at = lg_row_begin(rows);

                at = put_place(at, id, d, w);
                lg_row_end(rows, at);
            }
        }
    }
}

#define ADDRESS(p) p "_street_1, " p "_street_2, " p "_city, " p "_state, " p "_zip, "

const struct lg_tpcc_table lg_tpcc_tables[TPCC_TABLES] = {
    {"stock",
     "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, "
     "s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, "
     "s_data",
     write_stock, false, 1, 31000000},
    {"order_line",
     "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, "
     "ol_quantity, ol_amount, ol_dist_info",
     write_order_line, false, 1, 20000000},
    {"customer",
     "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, " ADDRESS("c")
     "c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, "
     "c_payment_cnt, c_delivery_cnt, c_data",
     write_customer, false, 1, 17000000},
    {"history", "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data",
     write_history, false, 10, 1700000},
    {"orders",
     "o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local",
     write_orders, false, 10, 1200000},
    {"item", "i_id, i_im_id, i_name, i_price, i_data", write_item, true, 1, 8000000},
    {"new_order", "no_o_id, no_d_id, no_w_id", write_new_order, false, 50, 90000},
    {"district",
     "d_id, d_w_id, d_name, " ADDRESS("d") "d_tax, d_ytd, d_next_o_id",
     write_district, false, 1000, 1000},
    {"warehouse",
     "w_id, w_name, " ADDRESS("w") "w_tax, w_ytd",
     write_warehouse, false, 10000, 95},
};

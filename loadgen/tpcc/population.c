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

/*
 * Chooses `left` of the `of` rows still to come: called for each row, exactly as many are
 * chosen, each as likely as the other ("10% of the rows, selected at random").
 */
struct choice {
    int32_t left, of;
};

/* The row that is next, and what it is drawn from. */
struct lg_tpcc_row {
    const struct lg_population *population;
    struct tb_random random; /* of its table and warehouse */
    struct choice tenth;     /* of the rows with this warehouse and district */
    int32_t w, d, id;
    const struct order *order; /* with this `id`, where the table has orders */
    int32_t line;              /* of the order */
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

static bool is_of_the_tenth(struct lg_tpcc_row *row)
{
    bool chosen = tb_random_between(&row->random, 1, row->tenth.of) <= row->tenth.left;

    row->tenth.of--;
    row->tenth.left -= chosen;
    return chosen;
}

static char *put_characters(char *at, struct lg_tpcc_row *row, size_t length)
{
    return lg_put_alphanumeric(at, &row->random, &row->population->alphabet, length);
}

/* "random a-string [low … high]" (clause 4.3.2.2) */
static char *put_string(char *at, struct lg_tpcc_row *row, int low, int high)
{
    return put_characters(at, row, (size_t)tb_random_between(&row->random, low, high));
}

/* I_DATA and S_DATA: [26 … 50] characters, "ORIGINAL" somewhere in those of a tenth. */
static char *put_data(char *at, struct lg_tpcc_row *row)
{
    bool original = is_of_the_tenth(row);
    char *end = put_string(at, row, 26, 50);

    if (original) {
        int64_t length = end - at - 1;

        memcpy(at + tb_random_between(&row->random, 0, length - 8), "ORIGINAL", 8);
    }
    return end;
}

/* Streets, city, state and zip (clause 4.3.2.7: four digits, then 11111). */
static char *put_address(char *at, struct lg_tpcc_row *row)
{
    at = put_string(at, row, 10, 20);
    at = put_string(at, row, 10, 20);
    at = put_string(at, row, 10, 20);
    at = put_characters(at, row, 2);
    at = lg_write_digits(at, (uint64_t)tb_random_between(&row->random, 0, 9999), 4);
    return lg_put_literal(at, "11111");
}

/* The number of a row within its district, and where that is. */
static char *put_place(char *at, struct lg_tpcc_row *row)
{
    at = lg_put_integer(at, row->id);
    at = lg_put_integer(at, row->d);
    return lg_put_integer(at, row->w);
}

static char *put_item(char *at, struct lg_tpcc_row *row)
{
    at = lg_put_integer(at, row->id);
    at = lg_put_integer(at, tb_random_between(&row->random, 1, 10000));
    at = put_string(at, row, 14, 24);
    at = lg_put_decimal(at, tb_random_between(&row->random, 100, 10000), 2);
    return put_data(at, row);
}

static char *put_warehouse(char *at, struct lg_tpcc_row *row)
{
    at = lg_put_integer(at, row->w);
    at = put_string(at, row, 6, 10);
    at = put_address(at, row);
    at = lg_put_decimal(at, tb_random_between(&row->random, 0, 2000), 4);
    return lg_put_literal(at, "300000.00");
}

static char *put_district(char *at, struct lg_tpcc_row *row)
{
    at = lg_put_integer(at, row->d);
    at = lg_put_integer(at, row->w);
    at = put_string(at, row, 6, 10);
    at = put_address(at, row);
    at = lg_put_decimal(at, tb_random_between(&row->random, 0, 2000), 4);
    at = lg_put_literal(at, "30000.00");
    return lg_put_integer(at, TPCC_ORDERS + 1);
}

static char *put_stock(char *at, struct lg_tpcc_row *row)
{
    at = lg_put_integer(at, row->id);
    at = lg_put_integer(at, row->w);
    at = lg_put_integer(at, tb_random_between(&row->random, 10, 100));
    for (int i = 0; i < TPCC_DISTRICTS; i++) /* s_dist_01 … s_dist_10 */
        at = put_characters(at, row, 24);
    at = lg_put_literal(at, "0\t0\t0"); /* s_ytd, s_order_cnt, s_remote_cnt */
    return put_data(at, row);
}

static char *put_customer_name(char *at, struct lg_tpcc_row *row)
{
    char last[TPCC_LAST_NAME_BYTES];
    /* Each name once, then skewed (clause 4.3.3.1). */
    int32_t number = row->id <= TPCC_LAST_NAMES
                         ? row->id - 1
                         : lg_tpcc_draw_last_name(&row->random, row->population->c_load);

    at = put_string(at, row, 8, 16);
    at = lg_put_literal(at, "OE");
    return lg_put_bytes(at, last, lg_tpcc_last_name(number, last));
}

static char *put_customer(char *at, struct lg_tpcc_row *row)
{
    bool bad_credit = is_of_the_tenth(row);

    at = put_place(at, row);
    at = put_customer_name(at, row);
    at = put_address(at, row);
    at = lg_write_digits(at, (uint64_t)tb_random_between(&row->random, 0, 9999999999999999), 16);
    *at++ = '\t';
    at = lg_put_literal(at, TPCC_ENTRY_DATE);
    at = lg_put_bytes(at, bad_credit ? "BC" : "GC", 2);
    at = lg_put_literal(at, "50000.00");
    at = lg_put_decimal(at, tb_random_between(&row->random, 0, 5000), 4);
    /* c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt */
    at = lg_put_literal(at, "-10.00\t10.00\t1\t0");
    return put_string(at, row, 300, 500);
}

static char *put_history(char *at, struct lg_tpcc_row *row)
{
    at = put_place(at, row);
    at = lg_put_integer(at, row->d);
    at = lg_put_integer(at, row->w);
    at = lg_put_literal(at, TPCC_ENTRY_DATE "\t10.00"); /* h_date, h_amount */
    return put_string(at, row, 12, 24);
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

static char *put_order(char *at, struct lg_tpcc_row *row)
{
    bool delivered = row->id < TPCC_FIRST_UNDELIVERED;

    at = put_place(at, row);
    at = lg_put_integer(at, row->order->customer);
    at = lg_put_literal(at, TPCC_ENTRY_DATE);
    at = delivered ? lg_put_integer(at, row->order->carrier) : lg_put_literal(at, "\\N");
    at = lg_put_integer(at, row->order->lines);
    return lg_put_literal(at, "1"); /* o_all_local */
}

static char *put_order_line(char *at, struct lg_tpcc_row *row)
{
    at = put_place(at, row);
    at = lg_put_integer(at, row->line);
    at = lg_put_integer(at, tb_random_between(&row->random, 1, TPCC_ITEMS));
    at = lg_put_integer(at, row->w);
    if (row->id < TPCC_FIRST_UNDELIVERED) { /* ol_delivery_d, ol_quantity, ol_amount */
        at = lg_put_literal(at, TPCC_ENTRY_DATE "\t5\t0.00");
    } else {
        at = lg_put_literal(at, "\\N\t5");
        at = lg_put_decimal(at, tb_random_between(&row->random, 1, 999999), 2);
    }
    return put_characters(at, row, 24);
}

void lg_tpcc_write(const struct lg_population *population, const struct lg_tpcc_table *table,
                   struct lg_rows *rows, int32_t first, int32_t last)
{
    struct order orders[TPCC_ORDERS] = {0};

    for (int32_t w = first; w <= last; w++) {
        struct tb_random heads = stream_of(population, STREAM_ORDERS, w);
        struct lg_tpcc_row row = {
            .population = population,
            .random = stream_of(population, table->stream, table->once ? 0 : w),
            .w = w,
        };

        for (row.d = 1; row.d <= table->districts; row.d++) {
            if (table->orders)
                draw_orders(&heads, orders);
            row.tenth = (struct choice){table->last / 10, table->last};
            for (row.id = table->first; row.id <= table->last && !rows->failed; row.id++) {
                row.order = table->orders ? &orders[row.id - 1] : NULL;
                int lines = table->lines ? row.order->lines : 1;

                for (row.line = 1; row.line <= lines; row.line++)
                    lg_row_end(rows, table->put(lg_row_begin(rows), &row));
            }
        }
    }
}

#define ADDRESS(p) p "_street_1, " p "_street_2, " p "_city, " p "_state, " p "_zip, "
#define BY_DISTRICT(rows) .districts = TPCC_DISTRICTS, .first = 1, .last = rows
#define BY_WAREHOUSE(rows) .districts = 1, .first = 1, .last = rows

const struct lg_tpcc_table lg_tpcc_tables[TPCC_TABLES] = {
    {"stock",
     "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, "
     "s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, "
     "s_data",
     put_stock, STREAM_STOCK, BY_WAREHOUSE(TPCC_STOCK), .package = 1, .bytes = 31000000},
    {"order_line",
     "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, "
     "ol_quantity, ol_amount, ol_dist_info",
     put_order_line, STREAM_ORDER_LINE, BY_DISTRICT(TPCC_ORDERS), .orders = true, .lines = true,
     .package = 1, .bytes = 20000000},
    {"customer",
     "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, " ADDRESS("c")
     "c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, "
     "c_payment_cnt, c_delivery_cnt, c_data",
     put_customer, STREAM_CUSTOMER, BY_DISTRICT(TPCC_CUSTOMERS), .package = 1, .bytes = 17000000},
    {"history", "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data",
     put_history, STREAM_HISTORY, BY_DISTRICT(TPCC_CUSTOMERS), .package = 10, .bytes = 1700000},
    {"orders",
     "o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local",
     put_order, STREAM_ORDERS, BY_DISTRICT(TPCC_ORDERS), .orders = true, .package = 10,
     .bytes = 1200000},
    {"item", "i_id, i_im_id, i_name, i_price, i_data",
     put_item, STREAM_ITEM, BY_WAREHOUSE(TPCC_ITEMS), .once = true, .package = 1,
     .bytes = 8000000},
    {"new_order", "no_o_id, no_d_id, no_w_id",
     put_place, .districts = TPCC_DISTRICTS, .first = TPCC_FIRST_UNDELIVERED, .last = TPCC_ORDERS,
     .package = 50, .bytes = 90000},
    {"district", "d_id, d_w_id, d_name, " ADDRESS("d") "d_tax, d_ytd, d_next_o_id",
     put_district, STREAM_DISTRICT, BY_DISTRICT(1), .package = 1000, .bytes = 1000},
    {"warehouse", "w_id, w_name, " ADDRESS("w") "w_tax, w_ytd",
     put_warehouse, STREAM_WAREHOUSE, BY_WAREHOUSE(1), .package = 10000, .bytes = 95},
};

/*
 * Answers, validated: an answer that the data cannot give fails the run at once, because a
 * fast wrong answer is worse than none.
 */
#include "tpcc.h"

/* The lines of 20 orders: Stock-Level cannot count more items (clause 2.8.2.2). */
enum { MOST_LOW_STOCK = 20 * TPCC_MAX_LINES };

static enum lg_status wrong(struct lg_terminal *terminal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum lg_status wrong(struct lg_terminal *terminal, const char *format, ...)
{
    struct lg_tpcc_terminal *own = terminal->own;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(own->wrong, sizeof own->wrong, format, arguments);
    va_end(arguments);
    terminal->wrong = own->wrong;
    return LG_WRONG;
}

/* Reads an integer at *at; false where there is none, or one beyond ±10^17. */
static bool scan_integer(const char **at, const char *end, int64_t *number)
{
    const char *p = *at;
    bool negative = p < end && *p == '-';
    int64_t sum = 0;

    p += negative;

    const char *digits = p;

    for (; p < end && *p >= '0' && *p <= '9' && p - digits < 18; p++)
        sum = 10 * sum + (*p - '0');
    *number = negative ? -sum : sum;
    *at = p;
    return p > digits;
}

/* Column `index` of the first row as an integer in [low, high]. */
static bool integer_column(const struct lg_result *result, size_t index, int64_t low,
                           int64_t high, int64_t *number)
{
    if (result->rows < 1 || result->columns <= index || !result->first[index].text)
        return false;

    const char *at = result->first[index].text;
    const char *end = at + result->first[index].length;

    return scan_integer(&at, end, number) && at == end && *number >= low && *number <= high;
}

/* What stands in a column, for an error. */
static const char *shown(const struct lg_result *result, size_t index, int *length)
{
    static const char *const nothing = "nothing";
    bool there = result->rows >= 1 && result->columns > index && result->first[index].text;
    size_t bytes = there ? result->first[index].length : strlen(nothing);

    *length = bytes < 40 ? (int)bytes : 40;
    return there ? result->first[index].text : nothing;
}

static enum lg_status wrong_column(struct lg_terminal *terminal, const struct lg_result *result,
                                    size_t index, const char *expected)
{
    int length;
    const char *text = shown(result, index, &length);

    return wrong(terminal, "%s answered %.*s where %s belongs",
                 lg_tpcc_operations[terminal->operation].name, length, text, expected);
}

static enum lg_status check_new_order(struct lg_terminal *terminal,
                                       const struct lg_result *result)
{
    struct lg_tpcc_terminal *own = terminal->own;
    bool to_roll_back = terminal->values[NEW_ORDER_ROLLBACK].integer != 0;

    bool no_order = result->rows >= 1 && result->columns >= 1 && !result->first[0].text;
    bool undone = result->rows == 0 && result->code[0] != '\0'; /* see LG_OK in backend.h */

    if (no_order || undone) {
        if (to_roll_back)
            return LG_ROLLED_BACK;
        return wrong(terminal, "new_order was rolled back, though item holds all of its items");
    }
    if (!integer_column(result, 0, TPCC_ORDERS + 1, INT32_MAX, &own->answer))
        return wrong_column(terminal, result, 0, "the number of a new order, above 3000,");
    if (to_roll_back)
        return wrong(terminal, "new_order committed order %lld, though its last item is unused",
                     (long long)own->answer);
    return LG_DONE;
}

/* The customer's number comes back: the requested one, or the one found by name. */
static bool check_customer(struct lg_terminal *terminal, const struct lg_result *result,
                           const struct lg_value *requested)
{
    struct lg_tpcc_terminal *own = terminal->own;

    return integer_column(result, 0, 1, TPCC_CUSTOMERS, &own->answer) &&
           (requested->null || own->answer == requested->integer);
}

static enum lg_status check_payment(struct lg_terminal *terminal, const struct lg_result *result)
{
    if (!check_customer(terminal, result, &terminal->values[PAYMENT_C]))
        return wrong_column(terminal, result, 0, "the customer's number");
    return LG_DONE;
}

static enum lg_status check_order_status(struct lg_terminal *terminal,
                                          const struct lg_result *result)
{
    int64_t order;

    if (!check_customer(terminal, result, &terminal->values[ORDER_STATUS_C]))
        return wrong_column(terminal, result, 0, "the customer's number");
    if (!integer_column(result, 1, 1, INT32_MAX, &order))
        return wrong_column(terminal, result, 1, "the number of the customer's last order");
    return LG_DONE;
}

/* "o1,…,o10": the orders of the ten districts; how many are not 0, -1 where it is not that. */
static int count_delivered(const char *text, size_t length)
{
    const char *at = text, *end = text + length;
    int delivered = 0;

    for (int d = 1; d <= TPCC_DISTRICTS; d++) {
        int64_t order;

        if (!scan_integer(&at, end, &order) || order < 0)
            return -1;
        delivered += order > 0;
        if (d < TPCC_DISTRICTS && (at == end || *at++ != ','))
            return -1;
    }
    return at == end ? delivered : -1;
}

static enum lg_status check_delivery(struct lg_terminal *terminal,
                                      const struct lg_result *result)
{
    int64_t delivered, retries = 0;

    if (!integer_column(result, 0, 0, TPCC_DISTRICTS, &delivered))
        return wrong_column(terminal, result, 0, "the number of orders delivered");
    if (result->columns < 2 || !result->first[1].text ||
        count_delivered(result->first[1].text, result->first[1].length) != delivered)
        return wrong_column(terminal, result, 1, "the orders delivered, as many as counted,");
    if (result->columns > 2 && !integer_column(result, 2, 0, INT32_MAX, &retries))
        return wrong_column(terminal, result, 2, "the number of retries");
    terminal->retries = (uint32_t)retries;
    return delivered < TPCC_DISTRICTS ? LG_SKIPPED : LG_DONE; /* clause 2.7.4.2 */
}

static enum lg_status check_stock_level(struct lg_terminal *terminal,
                                         const struct lg_result *result)
{
    int64_t low_stock;

    if (!integer_column(result, 0, 0, MOST_LOW_STOCK, &low_stock))
        return wrong_column(terminal, result, 0, "a number of items, 300 at most,");
    return LG_DONE;
}

enum lg_status lg_tpcc_check(struct lg_terminal *terminal, const struct lg_result *result)
{
    switch (terminal->operation) {
    case TPCC_NEW_ORDER:
        return check_new_order(terminal, result);
    case TPCC_PAYMENT:
        return check_payment(terminal, result);
    case TPCC_ORDER_STATUS:
        return check_order_status(terminal, result);
    case TPCC_DELIVERY:
        return check_delivery(terminal, result);
    default:
        return check_stock_level(terminal, result);
    }
}

void lg_tpcc_journal(const struct lg_terminal *terminal, const struct lg_result *result,
                     struct tb_text *line)
{
    const struct lg_tpcc_terminal *own = terminal->own;
    const struct lg_value *values = terminal->values;

    switch (terminal->operation) {
    case TPCC_NEW_ORDER:
        tb_text_printf(line, "N %lld %lld %lld %lld %lld\n", (long long)values[NEW_ORDER_W].integer,
                       (long long)values[NEW_ORDER_D].integer, (long long)own->answer,
                       (long long)values[NEW_ORDER_C].integer,
                       (long long)values[NEW_ORDER_OL_CNT].integer);
        break;
    case TPCC_PAYMENT:
        tb_text_printf(line, "P %lld %lld %lld %lld %lld %lld\n",
                       (long long)values[PAYMENT_W].integer, (long long)values[PAYMENT_D].integer,
                       (long long)values[PAYMENT_C_W].integer,
                       (long long)values[PAYMENT_C_D].integer, (long long)own->answer,
                       (long long)values[PAYMENT_AMOUNT].integer);
        break;
    case TPCC_DELIVERY:
        tb_text_printf(line, "D %lld %lld %.*s\n", (long long)values[DELIVERY_W].integer,
                       (long long)values[DELIVERY_CARRIER].integer, (int)result->first[1].length,
                       result->first[1].text);
        break;
    default: /* the others only read */
        break;
    }
}

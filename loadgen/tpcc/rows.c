/* Text of bulk loaded rows: see population.h. */
#include "population.h"

static const char digit_pairs[] = "0001020304050607080910111213141516171819"
                                  "2021222324252627282930313233343536373839"
                                  "4041424344454647484950515253545556575859"
                                  "6061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

void lg_alphabet_fill(struct lg_alphabet *alphabet)
{
    static const char characters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (size_t i = 0; i < 62 * 62; i++) {
        alphabet->pairs[i][0] = characters[i / 62];
        alphabet->pairs[i][1] = characters[i % 62];
    }
}

bool lg_rows_flush(struct lg_rows *rows)
{
    if (!rows->failed && rows->length > 0)
        rows->failed = !rows->sink(rows->context, rows->buffer, rows->length);
    rows->length = 0;
    return !rows->failed;
}

/*
 * One draw of 64 bits, taken as a fraction, gives ten characters: five times the next
 * "digit" to the base 62². What is left for the tenth still has 21 values for each
 * character, and averages out over the nine before it: no character is favoured.
 */
char *lg_put_alphanumeric(char *at, struct tb_random *random, const struct lg_alphabet *alphabet,
                          size_t length)
{
    char *end = at + length;

    while (at < end) {
        uint64_t fraction = tb_random_next(random);

        for (int i = 0; i < 5; i++) {
            unsigned __int128 product = (unsigned __int128)fraction * (62 * 62);

            memcpy(at + 2 * i, alphabet->pairs[(uint64_t)(product >> 64)], 2);
            fraction = (uint64_t)product;
        }
        at += 10;
    }
    *end = '\t';
    return end + 1;
}

char *lg_write_digits(char *at, uint64_t number, int digits)
{
    for (int i = digits - 2; i >= 0; i -= 2) {
        memcpy(at + i, digit_pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    return at + digits;
}

static char *write_integer(char *at, uint64_t number)
{
    char text[20];
    char *start = text + sizeof text;

    while (number >= 100) {
        start -= 2;
        memcpy(start, digit_pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10) {
        start -= 2;
        memcpy(start, digit_pairs + 2 * number, 2);
    } else {
        *--start = (char)('0' + number);
    }

    size_t length = (size_t)(text + sizeof text - start);

    memcpy(at, start, length);
    return at + length;
}

char *lg_put_integer(char *at, int64_t number)
{
    uint64_t magnitude = (uint64_t)number;

    if (number < 0) {
        *at++ = '-';
        magnitude = -magnitude;
    }
    at = write_integer(at, magnitude);
    *at = '\t';
    return at + 1;
}

char *lg_put_decimal(char *at, int64_t scaled, int places)
{
    uint64_t unit = 1;

    for (int i = 0; i < places; i++)
        unit *= 10;
    at = write_integer(at, (uint64_t)scaled / unit);
    *at++ = '.';
    at = lg_write_digits(at, (uint64_t)scaled % unit, places);
    *at = '\t';
    return at + 1;
}

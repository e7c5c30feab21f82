/*
 * The histogram's arithmetic and its encoding "V2 compressed".
 *
 * The first 2048 nanoseconds have a counter each; after them every doubling of the value has 1024
 * counters, each twice as wide as those before: three digits everywhere, and every nanosecond of
 * a call into an engine in this process. A value's index follows from its leading zeros, without
 * a division.
 *
 * Encoding: header (big-endian), then the counters up to the last one that is not zero as zigzag
 * LEB128 numbers, a run of n zeros as the number -n; all that deflated.
 */
#include "native.h"

#include <endian.h>
#include <zlib.h>

enum {
    DIGITS = 3,
    COARSE_DIGITS = 2,
    COARSE_LOWEST_NS = 8,
    LEB128_LONGEST = 9,
};

#define COOKIE_V2 UINT32_C(0x1c849313)
#define COOKIE_V2_COMPRESSED UINT32_C(0x1c849314)

struct header {
    uint32_t cookie, payload_bytes, normalizing_offset, digits;
    uint64_t lowest, highest, ratio;
} __attribute__((packed));

struct envelope {
    uint32_t cookie, compressed_bytes;
} __attribute__((packed));

void tb_hdr_init(struct tb_hdr *histogram)
{
    histogram->total = 0;
    histogram->counts = tb_allocate(TB_HDR_COUNTERS, sizeof *histogram->counts);
}

void tb_hdr_free(struct tb_hdr *histogram)
{
    free(histogram->counts);
    histogram->counts = NULL;
}

void tb_hdr_add(struct tb_hdr *histogram, const struct tb_hdr *other)
{
    for (size_t i = 0; i < TB_HDR_COUNTERS; i++)
        histogram->counts[i] += other->counts[i];
    histogram->total += other->total;
}

/* Seven bits a byte, the lowest first; the ninth byte has all of its eight. */
static size_t put_number(uint8_t *into, int64_t number)
{
    uint64_t zigzag = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    size_t length = 0;
    while (zigzag >= 0x80 && length < LEB128_LONGEST - 1) {
        into[length++] = (uint8_t)(zigzag | 0x80);
        zigzag >>= 7;
    }
    into[length++] = (uint8_t)zigzag;
    return length;
}

static size_t put_counts(uint8_t *into, const uint64_t *counts, size_t counters)
{
    size_t used = counters, length = 0;
    while (used > 0 && counts[used - 1] == 0)
        used--;
    for (size_t i = 0; i < used;) {
        size_t zeros = 0;
        while (counts[i + zeros] == 0)
            zeros++;
        if (zeros > 0) {
            length += put_number(into + length, -(int64_t)zeros);
            i += zeros;
        }
        length += put_number(into + length, (int64_t)counts[i++]);
    }
    return length;
}

static size_t take_number(const uint8_t *from, int64_t *number)
{
    uint64_t zigzag = 0;
    size_t length = 0;
    bool more = true;
    while (more) {
        bool last = length == LEB128_LONGEST - 1;
        uint8_t byte = from[length];
        zigzag |= (uint64_t)(last ? byte : byte & 0x7f) << (7 * length);
        more = !last && byte & 0x80;
        length++;
    }
    *number = (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    return length;
}

void tb_coarse_hdr_pack(const struct tb_coarse_hdr *histogram, struct tb_text *into)
{
    uint8_t packed[TB_COARSE_COUNTERS * LEB128_LONGEST];
    size_t length = put_counts(packed, histogram->counts, TB_COARSE_COUNTERS);
    if (length > 0)
        tb_text_add(into, (char *)packed, length);
}

void tb_coarse_hdr_add(struct tb_coarse_hdr *histogram, const char *packed, size_t length)
{
    int64_t number;
    size_t place = 0;
    for (size_t at = 0; at < length;) {
        at += take_number((const uint8_t *)packed + at, &number);
        if (number < 0)
            place += (size_t)-number;
        else
            histogram->counts[place++] += (uint64_t)number;
    }
}

static char *base64(const uint8_t *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = tb_allocate((length + 2) / 3 * 4 + 1, 1), *at = text;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < length ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < length ? (uint32_t)bytes[i + 2] : 0;
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = i + 1 < length ? digits[three >> 6 & 63] : '=';
        *at++ = i + 2 < length ? digits[three & 63] : '=';
    }
    return text;
}

static char *encode(const uint64_t *histogram, size_t counters, uint64_t lowest_ns,
                    uint32_t digits)
{
    uint8_t *plain = tb_allocate(sizeof(struct header) + counters * LEB128_LONGEST, 1);
    size_t counts = put_counts(plain + sizeof(struct header), histogram, counters);
    double one = 1.0;
    uint64_t ratio;
    memcpy(&ratio, &one, sizeof ratio);
    struct header header = {
        .cookie = htobe32(COOKIE_V2),
        .payload_bytes = htobe32((uint32_t)counts),
        .digits = htobe32(digits),
        .lowest = htobe64(lowest_ns),
        .highest = htobe64((uint64_t)TB_HDR_HIGHEST_NS),
        .ratio = htobe64(ratio),
    };
    memcpy(plain, &header, sizeof header);
    uLongf compressed = compressBound(sizeof header + counts);
    uint8_t *whole = tb_allocate(sizeof(struct envelope) + compressed, 1);
    if (compress(whole + sizeof(struct envelope), &compressed, plain, sizeof header + counts))
        abort(); /* out of memory: nothing else can happen in a buffer of compressBound */
    struct envelope envelope = {htobe32(COOKIE_V2_COMPRESSED), htobe32((uint32_t)compressed)};
    memcpy(whole, &envelope, sizeof envelope);
    char *text = base64(whole, sizeof envelope + compressed);
    free(plain);
    free(whole);
    return text;
}

char *tb_hdr_encode(const struct tb_hdr *histogram)
{
    return encode(histogram->counts, TB_HDR_COUNTERS, (uint64_t)TB_HDR_LOWEST_NS, DIGITS);
}

char *tb_coarse_hdr_encode(const struct tb_coarse_hdr *histogram)
{
    return encode(histogram->counts, TB_COARSE_COUNTERS, COARSE_LOWEST_NS, COARSE_DIGITS);
}

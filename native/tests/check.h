/* Checks of the C tests: each failure is printed with its place, and the test exits 1. */
#pragma once

#include "native.h"

static int failed_checks;

/* Runs before main(), which has no list that one of them might be missing in. */
#define TEST(name) static void __attribute__((constructor)) name(void)

#define CHECK_CASE(condition, number)                                                    \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: case %zu: failed: %s\n", __FILE__, __LINE__,         \
                    (size_t)(number), #condition);                                       \
            failed_checks++;                                                             \
        }                                                                                \
    } while (0)

#define CHECK(condition) CHECK_CASE(condition, 0)

#define CHECK_TEXT(text, expected)                                                       \
    do {                                                                                 \
        if (strcmp((text), (expected)) != 0) {                                           \
            fprintf(stderr, "%s:%d: got \"%s\", expected \"%s\"\n", __FILE__, __LINE__,  \
                    (text), (expected));                                                 \
            failed_checks++;                                                             \
        }                                                                                \
    } while (0)

/* An error message that begins with "KEY:". */
#define CHECK_KEY(text, key)                                                             \
    do {                                                                                 \
        if (strncmp((text), (key), strlen(key)) != 0 || (text)[strlen(key)] != ':') {    \
            fprintf(stderr, "%s:%d: got \"%s\", expected \"%s: …\"\n", __FILE__,         \
                    __LINE__, (text), (key));                                            \
            failed_checks++;                                                             \
        }                                                                                \
    } while (0)

static inline int checks_failed(void)
{
    return failed_checks > 0;
}

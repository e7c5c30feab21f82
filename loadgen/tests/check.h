/* Checks of the C tests: each failure is told with its place, the program then exits 1. */
#ifndef LOADGEN_TESTS_CHECK_H
#define LOADGEN_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

static int failed_checks;

#define CHECK_CASE(condition, number)                                                    \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: case %zu: not so: %s\n", __FILE__, __LINE__,         \
                    (size_t)(number), #condition);                                       \
            failed_checks++;                                                             \
        }                                                                                \
    } while (0)

#define CHECK(condition) CHECK_CASE(condition, 0)

#define CHECK_TEXT(text, expected)                                                       \
    do {                                                                                 \
        if (strcmp((text), (expected)) != 0) {                                           \
            fprintf(stderr, "%s:%d: \"%s\" where \"%s\" belongs\n", __FILE__, __LINE__,  \
                    (text), (expected));                                                 \
            failed_checks++;                                                             \
        }                                                                                \
    } while (0)

static inline int checks_failed(void)
{
    return failed_checks > 0;
}

#endif

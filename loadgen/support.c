/*
 * What modules and workloads share: errors in words, growing text, clocks.
 */
#include "support.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void lg_fail(struct lg_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

static bool write_all(int descriptor, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(descriptor, bytes, length);
        if (written < 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

int lg_text_file(const char *text, char *path, size_t size, struct lg_error *error)
{
    int descriptor = memfd_create("loadgen", MFD_CLOEXEC);
    if (descriptor < 0 || !write_all(descriptor, text, strlen(text))) {
        lg_fail(error, "a file in memory: %s", strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
        return -1;
    }
    snprintf(path, size, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

void *lg_allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) {
        fprintf(stderr, "loadgen: out of memory: %zu times %zu bytes\n", count, size);
        abort();
    }
    return memory;
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * LG_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t lg_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t lg_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

struct lg_moment lg_moment(void)
{
    struct lg_moment moment = {.monotonic_ns = 0};
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = lg_monotonic_ns(), now = lg_realtime_ns();
        uint64_t apart = lg_monotonic_ns() - before;
        if (apart >= closest)
            continue;
        closest = apart;
        moment = (struct lg_moment){.monotonic_ns = before + apart / 2, .realtime_ns = now};
    }
    return moment;
}

uint64_t lg_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t lg_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static void text_reserve(struct lg_text *text, size_t more)
{
    if (text->capacity - text->length >= more)
        return;
    size_t capacity = text->capacity ? text->capacity : 4096;
    while (capacity - text->length < more)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        fprintf(stderr, "loadgen: out of memory: %zu bytes of text\n", capacity);
        abort();
    }
    text->bytes = bytes;
    text->capacity = capacity;
}

void lg_text_add(struct lg_text *text, const char *bytes, size_t length)
{
    text_reserve(text, length);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void lg_text_printf(struct lg_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    text_reserve(text, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

enum lg_rest lg_read_rest(void)
{
    char rest[256];
    ssize_t length = read(STDIN_FILENO, rest, sizeof rest);
    if (length <= 0)
        return LG_REST_END;
    for (ssize_t i = 0; i < length; i++)
        if (!isspace((unsigned char)rest[i]))
            return LG_REST_WORDS;
    return LG_REST_BLANK;
}

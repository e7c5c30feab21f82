#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tb_fail(struct tb_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void *tb_allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) {
        fprintf(stderr, "out of memory: %zu times %zu bytes\n", count, size);
        abort();
    }
    return memory;
}

static void text_reserve(struct tb_text *text, size_t more)
{
    if (text->capacity - text->length >= more)
        return;
    size_t capacity = text->capacity ? text->capacity : 4096;
    while (capacity - text->length < more)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        fprintf(stderr, "out of memory: %zu bytes of text\n", capacity);
        abort();
    }
    text->bytes = bytes;
    text->capacity = capacity;
}

void tb_text_add(struct tb_text *text, const char *bytes, size_t length)
{
    text_reserve(text, length);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void tb_text_printf(struct tb_text *text, const char *format, ...)
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

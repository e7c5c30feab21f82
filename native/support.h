/* Errors as text, zeroed memory, text that grows, files. */
#ifndef NATIVE_SUPPORT_H
#define NATIVE_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* An error message for a person: "connect to …: …". */
struct tb_error {
    char text[1024];
};

/* Always false: what fails returns it. */
bool tb_fail(struct tb_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Zeroed memory; aborts the process where there is none. */
void *tb_allocate(size_t count, size_t size);

/* A larger array with the first `used` elements of the old one, which is freed, or NULL. */
void *tb_grow(void *old, size_t used, size_t count, size_t size);

struct tb_text {
    char *bytes;
    size_t length, capacity;
};

void tb_text_add(struct tb_text *text, const char *bytes, size_t length);
void tb_text_printf(struct tb_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes all of it, however often that takes; false with errno. */
bool tb_write_all(int descriptor, const char *bytes, size_t length);
/*
 * Zeroed memory that processes share by a file of this path, NULL: of this process alone. The
 * first one makes the file; munmap frees the memory. NULL with the error.
 */
void *tb_shared_memory(const char *path, size_t bytes, struct tb_error *error);
/* Scans the lines of a file up to the first that fits the format; false where none does. */
bool tb_scan_file(const char *path, const char *format, ...)
    __attribute__((format(scanf, 2, 3)));

#endif

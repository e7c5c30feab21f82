#include "native.h"

#include <sys/mman.h>

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

void *tb_grow(void *old, size_t used, size_t count, size_t size)
{
    void *larger = tb_allocate(count, size);
    if (old)
        memcpy(larger, old, used * size);
    free(old);
    return larger;
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

bool tb_write_all(int descriptor, const char *bytes, size_t length)
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

void *tb_shared_memory(const char *path, size_t bytes, struct tb_error *error)
{
    int file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *mapped = MAP_FAILED;

    if (path) {
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        flags = MAP_SHARED;
    }
    if (!path || (file >= 0 && ftruncate(file, (off_t)bytes) == 0))
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (mapped == MAP_FAILED)
        tb_fail(error, "shared %s: %s", path ? path : "memory", strerror(errno));
    if (file >= 0)
        close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

bool tb_scan_file(const char *path, const char *format, ...)
{
    char line[256];
    bool fits = false;
    FILE *file = fopen(path, "re");
    while (!fits && file && fgets(line, sizeof line, file)) {
        va_list values;
        va_start(values, format);
        fits = vsscanf(line, format, values) > 0;
        va_end(values);
    }
    if (file)
        fclose(file);
    return fits;
}

/* ---- clocks ---- */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * TB_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t tb_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

struct tb_moment tb_moment(void)
{
    struct tb_moment moment = {.monotonic_ns = 0};
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 8; i++) { /* the thread may be preempted between two readings */
        uint64_t before = tb_monotonic_ns(), now = read_clock(CLOCK_REALTIME);
        uint64_t apart = tb_monotonic_ns() - before;
        if (apart >= closest)
            continue;
        closest = apart;
        moment = (struct tb_moment){.monotonic_ns = before + apart / 2, .realtime_ns = now};
    }
    return moment;
}

uint64_t tb_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t tb_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

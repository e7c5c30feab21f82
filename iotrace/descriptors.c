// The wrapped calls that open, close, duplicate, position and map: none of them is counted but
// mmap, whose later accesses are invisible.
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "iotrace.h"

// A descriptor may have been closed unseen (by C's stdio), so a new one is unknown, too.
static int opened(long descriptor) {
  forget((int)descriptor);
  return (int)descriptor;
}

#define OPEN(name, parameters, last, folder)                                 \
  EXPORTED int name parameters;                                              \
  EXPORTED int name parameters {                                             \
    mode_t mode = 0;                                                         \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                   \
      va_list more;                                                          \
      va_start(more, last);                                                  \
      mode = va_arg(more, mode_t);                                           \
      va_end(more);                                                          \
    }                                                                        \
    return opened(flags & O_TRUNC ? open_truncating(folder, path, flags, mode) \
                                  : syscall(SYS_openat, folder, path, flags, mode)); \
  }

OPEN(open, (const char *path, int flags, ...), flags, AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), flags, AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), flags, folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), flags, folder)

EXPORTED int close(int fd) {
  forget(fd);
  return (int)syscall(SYS_close, fd);
}

// C's stdio closes, or opens another file, below these.
#define STREAM(type, name, parameters, ...)                \
  EXPORTED type name parameters;                           \
  EXPORTED type name parameters {                          \
    static type(*next) parameters;                         \
    if (next == NULL) {                                    \
      next = (type(*) parameters)dlsym(RTLD_NEXT, #name);  \
    }                                                      \
    forget(fileno(stream));                                \
    return next(__VA_ARGS__);                              \
  }

STREAM(int, fclose, (FILE *stream), stream)
STREAM(FILE *, freopen, (const char *path, const char *mode, FILE *stream), path, mode, stream)
STREAM(FILE *, freopen64, (const char *path, const char *mode, FILE *stream), path, mode, stream)

EXPORTED int dup2(int from, int to) {
  if (from == to) { // dup3 refuses it
    return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
  }
  forget(to);
  return (int)syscall(SYS_dup3, from, to, 0);
}

EXPORTED int dup3(int from, int to, int flags) {
  forget(to);
  return (int)syscall(SYS_dup3, from, to, flags);
}

EXPORTED int close_range(unsigned first, unsigned last, int flags) {
  forget_range(first, last);
  return (int)syscall(SYS_close_range, first, last, flags);
}

// O_DIRECT may be set after open.
static int control(int fd, int command, long argument) {
  long result = syscall(SYS_fcntl, fd, command, argument);
  if (command == F_SETFL && result == 0) {
    set_flags(fd, argument);
  }
  return (int)result;
}

#define CONTROL(name)                                  \
  EXPORTED int name(int fd, int command, ...);         \
  EXPORTED int name(int fd, int command, ...) {        \
    va_list more;                                      \
    va_start(more, command);                           \
    long argument = va_arg(more, long);                \
    va_end(more);                                      \
    return control(fd, command, argument);             \
  }

CONTROL(fcntl)
CONTROL(fcntl64)

static off_t seek(int fd, off_t offset, int whence) {
  off_t result = syscall(SYS_lseek, fd, offset, whence);
  if (result >= 0) {
    moved(fd, result);
  }
  return result;
}

EXPORTED off_t lseek(int fd, off_t offset, int whence) { return seek(fd, offset, whence); }

EXPORTED off64_t lseek64(int fd, off64_t offset, int whence) { return seek(fd, offset, whence); }

static void *map(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  void *result = (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
  if (result != MAP_FAILED) {
    place_mapping(result, size, flags);
  }
  if (page == NULL || fd < 0 || flags & MAP_ANONYMOUS || result == MAP_FAILED) {
    return result;
  }
  enum part part = file_of(fd).part;
  if (part != OTHER) {
    bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
    struct mapped *mapped = &page->mapped[part];
    add_shared(&mapped->calls, 1);
    add_shared(&mapped->bytes, size);
    add_shared(&mapped->writable_bytes, shared && protection & PROT_WRITE ? size : 0);
  }
  return result;
}

EXPORTED void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(address, size, protection, flags, fd, offset);
}

EXPORTED void *mmap64(void *address, size_t size, int protection, int flags, int fd,
                      off64_t offset) {
  return map(address, size, protection, flags, fd, offset);
}

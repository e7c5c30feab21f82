// The wrapped calls that read, write and force to the device: a table of one line each.
//
// WRAP(name, parameters, operation, offset, system call and its arguments); every one has the
// parameter `fd`.
#undef _FORTIFY_SOURCE
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "iotrace.h"

_Static_assert(sizeof(long) == 8, "offsets are one argument of a system call");

#define WRAP(name, parameters, operation, offset, ...)    \
  EXPORTED ssize_t name parameters;                       \
  EXPORTED ssize_t name parameters {                      \
    struct call call = begin_call(fd, operation, offset); \
    ssize_t result = syscall(__VA_ARGS__);                \
    return end_call(&call, operation, offset, result);    \
  }

// A read at an offset, of which some are tried first without waiting for a device.
static ssize_t read_at(int fd, const struct iovec *vector, int count, off_t at, int flags) {
  struct call call = begin_call(fd, READ, at);
  if (probes(&call)) {
    int error = errno;
    ssize_t size = 0, result;
    for (int i = 0; i < count; i++) {
      size += (ssize_t)vector[i].iov_len;
    }
    result = syscall(SYS_preadv2, fd, vector, (long)count, at, 0L, flags | RWF_NOWAIT);
    if (result == size) {
      call.cached = true;
      return end_call(&call, READ, at, result);
    }
    call.probed = result >= 0 || errno == EAGAIN; // else the file system does not say
    errno = error;
  }
  ssize_t result = count == 1 && flags == 0
                       ? syscall(SYS_pread64, fd, vector->iov_base, vector->iov_len, at)
                       : syscall(SYS_preadv2, fd, vector, (long)count, at, 0L, flags);
  return end_call(&call, READ, at, result);
}

#define READ_AT(name, parameters, vector, count, flags) \
  EXPORTED ssize_t name parameters;                     \
  EXPORTED ssize_t name parameters {                    \
    return read_at(fd, vector, count, at, flags);       \
  }

#define BUFFER int fd, void *buffer, size_t size
#define CONSTANT int fd, const void *buffer, size_t size
#define VECTOR int fd, const struct iovec *vector, int count
#define V_ARGUMENTS fd, vector, (long)count

// clang-format off
WRAP(read, (BUFFER), READ, AT_POSITION, SYS_read, fd, buffer, size)
WRAP(readv, (VECTOR), READ, AT_POSITION, SYS_readv, V_ARGUMENTS)
READ_AT(pread, (BUFFER, off_t at), (&(struct iovec){buffer, size}), 1, 0)
READ_AT(pread64, (BUFFER, off_t at), (&(struct iovec){buffer, size}), 1, 0)
READ_AT(preadv, (VECTOR, off_t at), vector, count, 0)
READ_AT(preadv64, (VECTOR, off_t at), vector, count, 0)
READ_AT(preadv2, (VECTOR, off_t at, int flags), vector, count, flags)
READ_AT(preadv64v2, (VECTOR, off_t at, int flags), vector, count, flags)

WRAP(write, (CONSTANT), WRITE, AT_POSITION, SYS_write, fd, buffer, size)
WRAP(pwrite, (CONSTANT, off_t at), WRITE, at, SYS_pwrite64, fd, buffer, size, at)
WRAP(pwrite64, (CONSTANT, off_t at), WRITE, at, SYS_pwrite64, fd, buffer, size, at)
WRAP(writev, (VECTOR), WRITE, AT_POSITION, SYS_writev, V_ARGUMENTS)
WRAP(pwritev, (VECTOR, off_t at), WRITE, at, SYS_pwritev, V_ARGUMENTS, at, 0L)
WRAP(pwritev64, (VECTOR, off_t at), WRITE, at, SYS_pwritev, V_ARGUMENTS, at, 0L)
// clang-format on

// What glibc's headers call where it is compiled with _FORTIFY_SOURCE.
#define CHECKED(name, parameters, ...)                         \
  EXPORTED ssize_t name parameters;                            \
  EXPORTED ssize_t name parameters {                           \
    if (size > room) {                                         \
      __chk_fail();                                            \
    }                                                          \
    return __VA_ARGS__;                                        \
  }
extern void __chk_fail(void) __attribute__((noreturn));
CHECKED(__read_chk, (BUFFER, size_t room), read(fd, buffer, size))
CHECKED(__pread_chk, (BUFFER, off_t at, size_t room), pread(fd, buffer, size, at))
CHECKED(__pread64_chk, (BUFFER, off_t at, size_t room), pread(fd, buffer, size, at))

static ssize_t write_with_flags(VECTOR, off_t at, int flags) {
  struct call call = begin_call(fd, WRITE, at);
  call.file.durable |= (flags & (RWF_DSYNC | RWF_SYNC)) != 0;
  ssize_t result = syscall(SYS_pwritev2, V_ARGUMENTS, at, 0L, flags);
  return end_call(&call, WRITE, at, result);
}

EXPORTED ssize_t pwritev2(VECTOR, off_t at, int flags) {
  return write_with_flags(fd, vector, count, at, flags);
}

EXPORTED ssize_t pwritev64v2(VECTOR, off_t at, int flags) {
  return write_with_flags(fd, vector, count, at, flags);
}

#define WRAP_SYNC(name, parameters, only_data, ...)               \
  EXPORTED int name parameters;                                   \
  EXPORTED int name parameters {                                  \
    struct call call = begin_call(fd, SYNC, AT_POSITION);         \
    call.datasync = only_data;                                    \
    bool skipped = call.counted && models_sync(call.file.part);   \
    ssize_t result = skipped ? 0 : syscall(__VA_ARGS__);          \
    return (int)end_call(&call, SYNC, AT_POSITION, result);       \
  }

// sync_file_range makes nothing durable, and is not counted.
WRAP_SYNC(fsync, (int fd), false, SYS_fsync, fd)
WRAP_SYNC(fdatasync, (int fd), true, SYS_fdatasync, fd)
WRAP_SYNC(syncfs, (int fd), false, SYS_syncfs, fd)

// The kernel copies: a read of one file and a write of another, each of which took that long.
// What the read's planted delay takes is none of the write's time.
static ssize_t end_copy(struct call *in, off_t from, struct call *out, off_t to, ssize_t result) {
  uint64_t before = now_ns();
  end_call(in, READ, from, result);
  out->start_ns += now_ns() - before;
  return end_call(out, WRITE, to, result);
}

static off_t offset_of(const off_t *at) { return at == NULL ? AT_POSITION : *at; }

EXPORTED ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t size,
                                 unsigned flags) {
  off_t read_at = offset_of(from), write_at = offset_of(to);
  struct call reads = begin_call(in, READ, read_at), writes = begin_call(out, WRITE, write_at);
  ssize_t result = syscall(SYS_copy_file_range, in, from, out, to, size, flags);
  return end_copy(&reads, read_at, &writes, write_at, result);
}

EXPORTED ssize_t sendfile(int out, int in, off_t *from, size_t size) {
  off_t read_at = offset_of(from);
  struct call reads = begin_call(in, READ, read_at), writes = begin_call(out, WRITE, AT_POSITION);
  ssize_t result = syscall(SYS_sendfile, out, in, from, size);
  return end_copy(&reads, read_at, &writes, AT_POSITION, result);
}

EXPORTED ssize_t sendfile64(int out, int in, off_t *from, size_t size) {
  return sendfile(out, in, from, size);
}

// A log is often longer than what is written of it: RocksDB reserves its space beforehand.
EXPORTED int fallocate(int fd, int mode, off_t offset, off_t size) {
  int result = (int)syscall(SYS_fallocate, fd, mode, offset, size);
  if (result == 0 && mode == FALLOC_FL_KEEP_SIZE && page != NULL) {
    reserved(fd, (uint64_t)offset + (uint64_t)size);
  }
  return result;
}

EXPORTED int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  return fallocate(fd, mode, offset, size);
}

// These move no data for the caller, and decide when later reads wait.
#define WRAP_ADVICE(name, kind)                                            \
  EXPORTED int name(int fd, kind offset, kind size, int advice);           \
  EXPORTED int name(int fd, kind offset, kind size, int advice) {          \
    int error = errno;                                                     \
    if (syscall(SYS_fadvise64, fd, offset, size, advice) != 0) {           \
      int result = errno;                                                  \
      errno = error;                                                       \
      return result;                                                       \
    }                                                                      \
    advised(fd, (uint64_t)offset, (uint64_t)size, advice);                 \
    return 0;                                                              \
  }

WRAP_ADVICE(posix_fadvise, off_t)
WRAP_ADVICE(posix_fadvise64, off64_t)

EXPORTED ssize_t readahead(int fd, off64_t offset, size_t size) {
  ssize_t result = syscall(SYS_readahead, fd, offset, size);
  if (result == 0 && size != 0) {
    advised(fd, (uint64_t)offset, size, POSIX_FADV_WILLNEED);
  }
  return result;
}

EXPORTED int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
  int result = (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
  if (result == 0 && flags & SYNC_FILE_RANGE_WRITE) {
    uint64_t end = start_write_back(fd, (uint64_t)offset, (uint64_t)size);
    if (flags & SYNC_FILE_RANGE_WAIT_AFTER) {
      int error = errno;
      struct thread *thread = this_thread();
      if (thread != NULL) {
        wait_until(thread, now_ns(), end);
      }
      errno = error;
    }
  }
  return result;
}

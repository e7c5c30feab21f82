// The wrapped calls after which pages of a file are gone: it is removed, replaced by another one, or
// cut off. What was dirty of them is never written to the modelled device.
//
// A file that is removed while it is open loses its pages at once here, and in Linux when it is
// closed last: only what is written to it after its removal is modelled as of a new file.
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>

#include "iotrace.h"

static bool any_modelled(void) {
  bool modelled = false;
  for (unsigned part = 0; page != NULL && part < OTHER; part++) {
    modelled |= models_of_page()->device_of[part] != 0;
  }
  return modelled;
}

// A regular file's pages from `from` on; no bytes where nothing of it is modelled.
static struct pages pages_from(const struct stat *facts, uint64_t from) {
  uint64_t size = S_ISREG(facts->st_mode) ? (uint64_t)facts->st_size : 0;
  uint64_t first = (from + CACHE_PAGE - 1) / CACHE_PAGE * CACHE_PAGE;
  return (struct pages){0, -1, hash_of(facts), first, size > first ? size - first : 0};
}

// The pages of a path's file, or of a descriptor's with an empty path, from `from` on.
static struct pages pages_at(int folder, const char *path, int flags, uint64_t from,
                             bool of_the_name) {
  struct stat facts;
  int error = errno;
  struct pages pages = {0};
  if (any_modelled() && fstatat(folder, path, &facts, flags) == 0 &&
      (!of_the_name || facts.st_nlink == 1)) {
    pages = pages_from(&facts, from);
  }
  errno = error;
  return pages;
}

// The pages that go with a name.
static struct pages named(int folder, const char *path) {
  return pages_at(folder, path, AT_SYMLINK_NOFOLLOW, 0, true);
}

static long discarding(const struct pages *pages, long result) {
  if (result == 0 && pages->bytes != 0) {
    cache_discard(pages);
  }
  return result;
}

long open_truncating(int folder, const char *path, int flags, mode_t mode) {
  struct pages pages = pages_at(folder, path, 0, 0, false);
  long descriptor = syscall(SYS_openat, folder, path, flags, mode);
  discarding(&pages, descriptor < 0 ? descriptor : 0);
  return descriptor;
}

static int unlink_at(int folder, const char *path, int flags) {
  struct pages pages = named(folder, path);
  return (int)discarding(&pages, syscall(SYS_unlinkat, folder, path, flags));
}

EXPORTED int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }

EXPORTED int unlinkat(int folder, const char *path, int flags) {
  return unlink_at(folder, path, flags);
}

EXPORTED int remove(const char *path) {
  static int (*next)(const char *);
  if (next == NULL) {
    next = (int (*)(const char *))dlsym(RTLD_NEXT, "remove");
  }
  struct pages pages = named(AT_FDCWD, path);
  return (int)discarding(&pages, next(path));
}

static int rename_at(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned flags) {
  struct pages pages = {0}, moved = {0};
  if (!(flags & RENAME_EXCHANGE)) {
    pages = named(to_folder, to);
    moved = pages.bytes != 0 ? named(from_folder, from) : moved;
  }
  if (moved.file == pages.file) { // renamed to itself: nothing happens
    pages.bytes = 0;
  }
  return (int)discarding(&pages,
                         syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

EXPORTED int rename(const char *from, const char *to) {
  return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORTED int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  return rename_at(from_folder, from, to_folder, to, 0);
}

EXPORTED int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                       unsigned flags) {
  return rename_at(from_folder, from, to_folder, to, flags);
}

static int truncate_descriptor(int fd, off_t size) {
  struct pages pages = pages_at(fd, "", AT_EMPTY_PATH, (uint64_t)size, false);
  return (int)discarding(&pages, syscall(SYS_ftruncate, fd, size));
}

static int truncate_path(const char *path, off_t size) {
  struct pages pages = pages_at(AT_FDCWD, path, 0, (uint64_t)size, false);
  return (int)discarding(&pages, syscall(SYS_truncate, path, size));
}

EXPORTED int ftruncate(int fd, off_t size) { return truncate_descriptor(fd, size); }
EXPORTED int ftruncate64(int fd, off64_t size) { return truncate_descriptor(fd, size); }
EXPORTED int truncate(const char *path, off_t size) { return truncate_path(path, size); }
EXPORTED int truncate64(const char *path, off64_t size) { return truncate_path(path, size); }

// Which part a descriptor's file belongs to, found at its first use.
//
// A descriptor that is new, inherited, duplicated or received is unknown: its path is read from
// /proc then. So relative paths, symbolic links and unlinked files need no care; a file that is
// renamed to another part keeps its old one until it is reopened.
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>

#include "iotrace.h"

#define MOST_DESCRIPTORS 65536
#define PART_MASK 7
#define DIRECT_BIT 8
#define DURABLE_BIT 16
#define APPEND_BIT 32
#define MOST_EXTENTS 16 // of a file, whose other ones are taken to be written

static struct open_file {
  uint8_t known; // part + 1 and flags; 0: unknown
  uint8_t growth;
  uint64_t position;
  uint64_t ended;    // end of the last access + 1; 0: none yet
  uint64_t file_end; // of what was written, as last seen
  uint64_t reserved; // until where it has space
  uint64_t unsynced;
  uint64_t identity;
} open_files[MOST_DESCRIPTORS];

// Nothing is remembered of descriptors beyond the table.
static struct open_file *open_file_at(int descriptor) {
  static __thread struct open_file beyond __attribute__((tls_model("initial-exec")));
  if (descriptor >= 0 && descriptor < MOST_DESCRIPTORS) {
    return &open_files[descriptor];
  }
  beyond = (struct open_file){0};
  return &beyond;
}

// Of the bytes from 0 that were written: to space that is only allocated (fallocate), a first write
// is like one beyond the end, since a sync then has to note it in the file system's journal.
static uint64_t written_until(int descriptor, uint64_t size) {
  struct {
    struct fiemap map;
    struct fiemap_extent extents[MOST_EXTENTS];
  } found = {.map = {.fm_length = size, .fm_extent_count = MOST_EXTENTS}};
  if (syscall(SYS_ioctl, descriptor, FS_IOC_FIEMAP, &found) != 0) {
    return size;
  }
  uint64_t end = 0;
  for (uint32_t i = 0; i < found.map.fm_mapped_extents && i < MOST_EXTENTS; i++) {
    const struct fiemap_extent *extent = &found.extents[i];
    if (extent->fe_logical > end || (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN)) {
      return end;
    }
    end = extent->fe_logical + extent->fe_length;
  }
  return found.map.fm_mapped_extents < MOST_EXTENTS && end < size ? end : size;
}

uint64_t hash_of(const struct stat *facts) {
  uint64_t hash = (uint64_t)facts->st_ino * 0x9e3779b97f4a7c15ULL;
  hash ^= (hash >> 29) + (uint64_t)facts->st_dev;
  return (hash * 0xbf58476d1ce4e5b9ULL) | 1;
}

static uint8_t look_up(int descriptor, struct open_file *open) {
  char link[40], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || path[0] != '/') { // a pipe, a socket
    return OTHER + 1;
  }
  path[length] = '\0';
  struct stat facts;
  bool is_known = fstat(descriptor, &facts) == 0;
  enum part part = part_of_path(path, is_known ? (uint64_t)facts.st_dev : 0);
  uint8_t result = (uint8_t)(part + 1);
  if (part != OTHER) {
    long flags = syscall(SYS_fcntl, descriptor, F_GETFL);
    result |= flags > 0 && (flags & O_DIRECT) ? DIRECT_BIT : 0;
    result |= flags > 0 && (flags & O_DSYNC) ? DURABLE_BIT : 0; // a bit of O_SYNC, too
    result |= flags > 0 && (flags & O_APPEND) ? APPEND_BIT : 0;
    open->identity = is_known ? hash_of(&facts) : 0;
    bool writes = flags > 0 && (flags & O_ACCMODE) != O_RDONLY;
    uint64_t size = is_known ? (uint64_t)facts.st_size : 0;
    open->file_end = writes ? written_until(descriptor, size) : size;
    open->reserved = later(open->reserved, size);
  }
  return result;
}

struct file file_of(int descriptor) {
  struct open_file *open = open_file_at(descriptor);
  if (descriptor < 0) {
    return (struct file){.part = OTHER};
  }
  uint8_t found = open->known;
  if (found == 0) {
    int error = errno;
    found = open->known = look_up(descriptor, open);
    errno = error;
  }
  return (struct file){(found & PART_MASK) - 1, found & DIRECT_BIT, found & DURABLE_BIT,
                       found & APPEND_BIT};
}

uint64_t identity_of(int descriptor) { return open_file_at(descriptor)->identity; }

uint64_t size_of(int descriptor) {
  struct stat facts;
  return fstat(descriptor, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

void forget(int descriptor) {
  struct open_file *open = open_file_at(descriptor);
  if (open->known != 0 || open->position != 0) { // moved before its first use
    *open = (struct open_file){0};
    forget_stream(descriptor);
  }
}

void forget_range(unsigned first, unsigned last) {
  for (unsigned i = first; i <= last && i < MOST_DESCRIPTORS; i++) {
    forget((int)i);
  }
}

void set_flags(int descriptor, long flags) {
  struct open_file *open = open_file_at(descriptor);
  if (open->known != 0) {
    open->known &= (uint8_t)~(DIRECT_BIT | APPEND_BIT);
    open->known |= flags & O_DIRECT ? DIRECT_BIT : 0;
    open->known |= flags & O_APPEND ? APPEND_BIT : 0;
  }
}

void moved(int descriptor, off_t to) { open_file_at(descriptor)->position = (uint64_t)to; }

bool follows(int descriptor, off_t offset, uint64_t size) {
  struct open_file *open = open_file_at(descriptor);
  bool implicit = offset == AT_POSITION;
  uint64_t from = implicit ? open->position : (uint64_t)offset;
  bool result = open->ended == from + 1;
  open->ended = from + size + 1;
  if (implicit) {
    open->position = from + size;
  }
  return result;
}

static uint64_t beginning(const struct open_file *open, off_t offset) {
  return offset == AT_POSITION ? open->position : (uint64_t)offset;
}

uint64_t start_of(int descriptor, struct file file, off_t offset) {
  const struct open_file *open = open_file_at(descriptor);
  return file.appends ? open->file_end : beginning(open, offset);
}

// Another process may have made the file longer: only then is that looked up again.
void look_at_end(int descriptor, off_t offset) {
  struct open_file *open = open_file_at(descriptor);
  if (beginning(open, offset) > open->file_end) {
    int error = errno;
    struct stat facts;
    if (fstat(descriptor, &facts) == 0) {
      open->file_end = written_until(descriptor, (uint64_t)facts.st_size);
      open->reserved = later(open->reserved, (uint64_t)facts.st_size);
    }
    errno = error;
  }
}

bool extends(int descriptor, off_t offset, uint64_t size) {
  struct open_file *open = open_file_at(descriptor);
  uint64_t end = beginning(open, offset) + size;
  bool result = end > open->file_end;
  open->file_end = result ? end : open->file_end;
  if (result) {
    open->growth |= end > open->reserved ? BEYOND_RESERVED : INTO_RESERVED;
  }
  return result;
}

void reserved(int descriptor, uint64_t end) {
  file_of(descriptor); // looks it up
  struct open_file *open = open_file_at(descriptor);
  open->reserved = later(open->reserved, end);
}

void add_unsynced(int descriptor, uint64_t bytes) {
  add_shared(&open_file_at(descriptor)->unsynced, bytes);
}

uint64_t take_unsynced(int descriptor) {
  return __atomic_exchange_n(&open_file_at(descriptor)->unsynced, 0, __ATOMIC_RELAXED);
}

enum growth take_growth(int descriptor) {
  struct open_file *open = open_file_at(descriptor);
  enum growth result = open->growth & BEYOND_RESERVED ? BEYOND_RESERVED : open->growth;
  open->growth = NO_GROWTH;
  return result;
}

// What the environment says: the page, the parts' directories, the background threads.
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "iotrace.h"

#define MOST_PLACES 16
#define MOST_RULES 48
#define TITLE_BYTES 64

struct header *page;

static const char *const part_names[OTHER] = {"data", "wal", "temp", "index", "relations"};

struct place {
  enum part part;
  char *path;
  size_t length;
  uint64_t device;
};
static struct place places[MOST_PLACES];
static size_t place_count;

struct rule {
  bool title;
  char *prefix;
  size_t length;
};
static struct rule rules[MOST_RULES];
static size_t rule_count;
static bool titles_matter;

static bool within(const char *path, const struct place *place) {
  return strncmp(path, place->path, place->length) == 0 &&
         (path[place->length] == '/' || path[place->length] == '\0');
}

// The longest prefix decides, unless the file lies on the file system of another part alone: it
// was bind-mounted then (engines/duckdb).
enum part part_of_path(const char *path, uint64_t device) {
  const struct place *best = NULL;
  for (size_t i = 0; i < place_count; i++) {
    if (within(path, &places[i]) && (best == NULL || places[i].length > best->length)) {
      best = &places[i];
    }
  }
  if (best == NULL || best->device == device) {
    return best == NULL ? OTHER : best->part;
  }
  for (size_t i = 0; i < place_count; i++) {
    if (places[i].device == device) {
      return places[i].part;
    }
  }
  return best->part;
}

static bool any_rule(bool title, const char *text) {
  for (size_t i = 0; i < rule_count; i++) {
    if (rules[i].title == title && strncmp(text, rules[i].prefix, rules[i].length) == 0) {
      return true;
    }
  }
  return false;
}

bool is_background(const char *thread_name) {
  if (any_rule(false, thread_name)) {
    return true;
  }
  if (!titles_matter) {
    return false;
  }
  char title[TITLE_BYTES] = "";
  long descriptor = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  long bytes = syscall(SYS_read, descriptor, title, sizeof title - 1);
  syscall(SYS_close, descriptor);
  return bytes > 0 && any_rule(true, title);
}

static void add_place(const char *name, char *path) {
  struct stat facts;
  for (int part = DATA; part < OTHER && place_count < MOST_PLACES; part++) {
    if (strcmp(name, part_names[part]) == 0) {
      bool known = stat(path, &facts) == 0;
      places[place_count++] =
          (struct place){part, path, strlen(path), known ? (uint64_t)facts.st_dev : 0};
    }
  }
}

static void add_rule(const char *kind, char *prefix) {
  if (rule_count < MOST_RULES && *prefix != '\0') {
    bool title = strcmp(kind, "title") == 0;
    rules[rule_count++] = (struct rule){title, prefix, strlen(prefix)};
    titles_matter |= title;
  }
}

// Calls `take` for each line "name=value" of an environment variable.
static void each_line(const char *variable, void (*take)(const char *, char *)) {
  const char *text = getenv(variable);
  char *copy = text ? strdup(text) : NULL; // places and rules point into it
  char *rest = copy;
  for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) {
    char *value = strchr(line, '=');
    if (value != NULL) {
      *value = '\0';
      take(line, value + 1);
    }
  }
}

// The descriptor stays open, so that a program that is executed later finds the page, too.
static struct header *map_page(const char *number) {
  char *end;
  long descriptor = strtol(number, &end, 10);
  struct stat facts;
  if (*end != '\0' || descriptor < 0 || descriptor > INT_MAX ||
      fstat((int)descriptor, &facts) < 0 || (uint64_t)facts.st_size != PAGE_BYTES) {
    return NULL;
  }
  void *mapped = (void *)syscall(SYS_mmap, NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 descriptor, 0L);
  if (mapped == MAP_FAILED) {
    return NULL;
  }
  struct header *found = mapped;
  bool ours = found->magic == PAGE_MAGIC && found->version == PAGE_VERSION &&
              found->slots == PAGE_SLOTS && found->head_bytes == sizeof(struct head) &&
              found->detail_bytes == sizeof(struct detail) && found->page_bytes == PAGE_BYTES;
  if (!ours) {
    syscall(SYS_munmap, mapped, PAGE_BYTES);
    return NULL;
  }
  return found;
}

__attribute__((constructor)) static void start(void) {
  const char *number = getenv("TIERBENCH_IOTRACE_PAGE");
  struct header *mapped = number ? map_page(number) : NULL;
  if (mapped == NULL) {
    return;
  }
  each_line("TIERBENCH_IOTRACE_PARTS", add_place);
  each_line("TIERBENCH_IOTRACE_BACKGROUND", add_rule);
  watch_threads();
  page = mapped;
}

// What Linux reads of a file before a reader needs it (mm/readahead.c), on a modelled device.
//
// A read that misses fetches a window; a read that reaches the mark in a window fetches the next
// one, larger, while the reader continues. So a sequential reader waits for the bandwidth of a device
// and not for its latency. Where the pages before a miss are cached, it is taken for a stream too.
#include <stddef.h>

#include "iotrace.h"

#define STREAMS 65536
#define WINDOWS 2
// Linux splits a window into requests; a reader waits for the one that has its page.
#define REQUEST_PAGES 128
#define MOST_WINDOWS 1024 // of one read

struct window {
  uint64_t start, end; // pages
  uint64_t first_ns, last_ns; // when its first and its last request are done
};

// Races of threads that share a descriptor are harmless, as in Linux.
static struct stream {
  uint64_t start, size, async; // of the newest window; its mark is `async` pages before its end
  uint64_t previous;           // the page after the last one that was read
  bool random;
  struct window windows[WINDOWS]; // the newest last
} streams[STREAMS];

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

static uint64_t end_of(const struct pages *pages) {
  return (pages->offset + pages->bytes + CACHE_PAGE - 1) / CACHE_PAGE;
}

// NULL: the file or its stream is unknown.
static struct stream *stream_of(const struct pages *pages) {
  bool known = pages->file != 0 && pages->descriptor >= 0 && pages->descriptor < STREAMS;
  return known && pages->bytes != 0 ? &streams[pages->descriptor] : NULL;
}

static uint64_t first_size(uint64_t pages, uint64_t most) {
  uint64_t size = 1;
  while (size < pages) {
    size *= 2;
  }
  return size <= most / 32 ? size * 4 : size <= most / 4 ? size * 2 : most;
}

static uint64_t next_size(uint64_t size, uint64_t most) {
  return size < most / 16 ? size * 4 : size <= most / 2 ? size * 2 : most;
}

// Reads pages that are not cached; when the first and the last request are done.
static struct window fetch(struct thread *thread, const struct pages *file, uint64_t start,
                           uint64_t end, uint64_t now) {
  struct window window = {start, end, now, now};
  bool first = true;
  for (uint64_t page = start; page < end; page += REQUEST_PAGES) {
    struct pages part = *file;
    part.offset = page * CACHE_PAGE;
    part.bytes = least(REQUEST_PAGES, end - page) * CACHE_PAGE;
    uint64_t bytes = cache_fill(&part);
    if (bytes != 0) {
      window.last_ns = later(window.last_ns, device_read(thread, file->device, bytes, now));
    }
    if (first) {
      window.first_ns = window.last_ns;
      first = false;
    }
  }
  return window;
}

static uint64_t arrival(const struct stream *stream, uint64_t from, uint64_t to) {
  uint64_t result = 0;
  for (int i = 0; i < WINDOWS; i++) {
    const struct window *window = &stream->windows[i];
    if (from >= window->end || to <= window->start) {
      continue;
    }
    uint64_t page = least(to, window->end) - 1 - window->start;
    uint64_t requests = (window->end - window->start - 1) / REQUEST_PAGES;
    uint64_t share = requests == 0 ? 0 : page / REQUEST_PAGES;
    uint64_t span = window->last_ns - window->first_ns;
    result = later(result, window->first_ns + (requests == 0 ? 0 : span * share / requests));
  }
  return result;
}

static void push(struct stream *stream, struct window window) {
  stream->windows[0] = stream->windows[1];
  stream->windows[1] = window;
}

static void open_window(struct thread *thread, struct stream *stream, const struct pages *file,
                        uint64_t now) {
  uint64_t file_end = (size_of(file->descriptor) + CACHE_PAGE - 1) / CACHE_PAGE;
  uint64_t end = least(stream->start + stream->size, later(file_end, stream->start));
  push(stream, fetch(thread, file, stream->start, end, now));
}

// Whether a miss at `page`, of a read up to `end`, opens a window; else it is one of many reads all
// over the file, which fetches no more than it needs.
static bool begins_window(struct stream *stream, const struct pages *file, uint64_t page,
                          uint64_t end, uint64_t most) {
  uint64_t pages = end - page;
  bool follows = stream->previous != 0 && page - stream->previous <= 1; // unsigned: or wraps
  if (page == 0 || pages > most || follows) {
    stream->size = pages > most ? most : first_size(pages, most);
    stream->async = stream->size > pages ? stream->size - pages : stream->size / 2;
    return true;
  }
  uint64_t before = cache_history(file, page, most);
  if (before <= pages) {
    return false;
  }
  before = before >= page ? before * 2 : before; // cached from its beginning
  stream->size = least(before + pages, most);
  stream->async = 1;
  return true;
}

static void miss(struct thread *thread, struct stream *stream, const struct pages *file,
                 uint64_t page, uint64_t end, uint64_t most, uint64_t now) {
  if (!stream->random && begins_window(stream, file, page, end, most)) {
    stream->start = page;
    open_window(thread, stream, file, now);
    return;
  }
  push(stream, fetch(thread, file, page, end, now));
}

uint64_t read_through_cache(struct thread *thread, const struct pages *pages, uint64_t now) {
  uint64_t most = later(models_of_page()->devices[pages->device].readahead_bytes / CACHE_PAGE, 1);
  uint64_t page = pages->offset / CACHE_PAGE, end = end_of(pages);
  uint64_t over = now;
  struct stream *stream = stream_of(pages);
  if (stream == NULL) {
    return device_read(thread, pages->device, pages->bytes, now);
  }
  cache_use(pages);
  for (int i = 0; i < MOST_WINDOWS && page < end; i++) {
    uint64_t missing = cache_missing(pages, page, end);
    uint64_t mark = stream->start + stream->size - stream->async;
    if (stream->async != 0 && mark >= page && mark < missing) {
      over = later(over, arrival(stream, page, mark + 1));
      stream->start += stream->size;
      stream->async = stream->size = next_size(stream->size, most);
      open_window(thread, stream, pages, over);
    } else if (missing < end) {
      over = later(over, arrival(stream, page, missing));
      miss(thread, stream, pages, missing, end, most, over);
      over = later(over, arrival(stream, missing, missing + 1));
      page = missing;
    } else {
      over = later(over, arrival(stream, page, end));
      page = end;
    }
  }
  if (page < end) { // the modelled cache has no room for its pages
    over = device_read(thread, pages->device, (end - page) * CACHE_PAGE, over);
  }
  stream->previous = end;
  return over;
}

void forget_stream(int descriptor) {
  if (descriptor >= 0 && descriptor < STREAMS) {
    streams[descriptor] = (struct stream){0};
  }
}

void advise_stream(int descriptor, bool random) {
  if (descriptor >= 0 && descriptor < STREAMS) {
    streams[descriptor].random = random;
  }
}

void prefetch(struct thread *thread, const struct pages *pages, uint64_t now) {
  struct stream *stream = stream_of(pages);
  if (stream != NULL) {
    push(stream, fetch(thread, pages, pages->offset / CACHE_PAGE, end_of(pages), now));
  }
}

// What Linux reads of a file before a reader needs it (mm/readahead.c), on a modelled device.
//
// A read that misses fetches a window; a read that reaches the mark in a window fetches the next
// one, larger, while the reader continues. So a sequential reader waits for the bandwidth of a device
// and not for its latency. Where the pages before a miss are cached, it is taken for a stream too.
// Marks are of pages, and stay until some reader comes by: also one of another stream.
//
// The reader itself fills the page cache: it allocates the folios of a window before the device gets
// their requests. A stream's folios grow fourfold with each window that follows the first one.
#include "iotrace.h"

#define STREAMS 65536
#define WINDOWS 2
// Linux splits a window into requests; a reader waits for the one that has its page. A request has at
// most that number of folios (128 to 256, by the driver), and 4 MiB (BLK_DEF_MAX_SECTORS_CAP).
#define REQUEST_FOLIOS 128
#define MOST_REQUEST_PAGES 1024
#define MOST_WINDOWS 1024 // of one read
#define LARGEST_FOLIO 9   // 2 MiB, as a power of two of pages

struct window {
  uint64_t start, end; // pages
  uint64_t first_ns, last_ns; // when its first and its last request are done
  uint64_t request_pages;
};

// Races of threads that share a descriptor are harmless, as in Linux.
static struct stream {
  uint64_t start, size, async; // of the newest window; its mark is `async` pages before its end
  uint64_t previous;           // the page after the last one that was read
  unsigned order; // of the newest window's folios: each is 2^order pages
  bool random;
  struct window windows[WINDOWS]; // the newest last
} streams[STREAMS];

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

static struct pages pages_of(const struct pages *file, uint64_t start, uint64_t end) {
  struct pages range = *file;
  range.offset = start * CACHE_PAGE;
  range.bytes = (end - start) * CACHE_PAGE;
  return range;
}

// Reads pages that are not cached, in folios of 2^order pages. Returns when they are allocated.
static uint64_t fetch(struct thread *thread, struct stream *stream, const struct pages *file,
                      uint64_t start, uint64_t end, unsigned order, uint64_t now) {
  struct pages range = pages_of(file, start, end);
  uint64_t missing = cache_fill(&range) / CACHE_PAGE;
  uint64_t folios = (missing + (1ULL << order) - 1) >> order;
  now += folios * models_of_page()->devices[file->device].fill_ns;
  uint64_t most = least((uint64_t)REQUEST_FOLIOS << order, MOST_REQUEST_PAGES);
  struct window window = {start, end, now, now, most};
  for (uint64_t requested = 0; requested < missing; requested += most) {
    uint64_t bytes = least(most, missing - requested) * CACHE_PAGE;
    window.last_ns = later(window.last_ns, device_read(thread, file->device, bytes, now));
    window.first_ns = requested == 0 ? window.last_ns : window.first_ns;
  }
  stream->windows[0] = stream->windows[1];
  stream->windows[1] = window;
  return now;
}

static uint64_t arrived(const struct stream *stream, uint64_t from, uint64_t to) {
  uint64_t result = 0;
  for (int i = 0; i < WINDOWS; i++) {
    const struct window *window = &stream->windows[i];
    if (from >= window->end || to <= window->start) {
      continue;
    }
    uint64_t page = least(to, window->end) - 1 - window->start;
    uint64_t requests = (window->end - window->start - 1) / window->request_pages;
    uint64_t share = requests == 0 ? 0 : page / window->request_pages;
    uint64_t span = window->last_ns - window->first_ns;
    result = later(result, window->first_ns + (requests == 0 ? 0 : span * share / requests));
  }
  return result;
}

static uint64_t mark_of(const struct stream *stream) {
  uint64_t mark = stream->start + stream->size - stream->async;
  return later(mark >> stream->order << stream->order, stream->start);
}

static uint64_t open_window(struct thread *thread, struct stream *stream,
                            const struct pages *file, unsigned order, uint64_t now) {
  uint64_t file_end = (size_of(file->descriptor) + CACHE_PAGE - 1) / CACHE_PAGE;
  uint64_t end = least(stream->start + stream->size, later(file_end, stream->start));
  stream->order = order < LARGEST_FOLIO ? order : LARGEST_FOLIO;
  while (stream->order > 0 && 1ULL << stream->order > stream->size) {
    stream->order--;
  }
  uint64_t mark = mark_of(stream);
  bool missed = mark < end && cache_missing(file, mark, mark + 1) == mark;
  uint64_t allocated = fetch(thread, stream, file, stream->start, end, stream->order, now);
  if (missed) {
    struct pages marked = pages_of(file, mark, mark + 1);
    cache_mark(&marked);
  }
  return allocated;
}

// Whether the page, whose mark was taken, has the stream read ahead: the next window, or, of another
// stream's mark, what is missing after it.
static bool moves_on(struct stream *stream, const struct pages *file, uint64_t page, uint64_t end,
                     uint64_t most) {
  if (page == mark_of(stream)) {
    stream->start += stream->size;
    stream->size = next_size(stream->size, most);
  } else {
    uint64_t start = cache_missing(file, page + 1, page + 1 + most);
    if (start - page > most) {
      return false;
    }
    stream->start = start;
    stream->size = next_size(start - page + end - page, most);
  }
  stream->async = stream->size;
  return true;
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

// Returns when the pages of the miss are allocated.
static uint64_t miss(struct thread *thread, struct stream *stream, const struct pages *file,
                     uint64_t page, uint64_t end, uint64_t most, uint64_t now) {
  if (!stream->random && begins_window(stream, file, page, end, most)) {
    stream->start = page;
    return open_window(thread, stream, file, 0, now);
  }
  return fetch(thread, stream, file, page, end, 0, now);
}

struct arrival read_through_cache(struct thread *thread, const struct pages *pages, uint64_t now) {
  uint64_t most = later(models_of_page()->devices[pages->device].readahead_bytes / CACHE_PAGE, 1);
  uint64_t page = pages->offset / CACHE_PAGE, end = end_of(pages);
  uint64_t over = now, filling_ns = 0;
  struct stream *stream = stream_of(pages);
  if (stream == NULL) {
    return (struct arrival){device_read(thread, pages->device, pages->bytes, now), 0};
  }
  cache_use(pages);
  for (int i = 0; i < MOST_WINDOWS && page < end; i++) {
    uint64_t missing = cache_missing(pages, page, end);
    uint64_t mark = cache_take_mark(pages, page, missing);
    if (mark < missing) {
      over = later(over, arrived(stream, page, mark + 1));
      if (moves_on(stream, pages, mark, end, most)) {
        uint64_t allocated = open_window(thread, stream, pages, stream->order + 2, over);
        filling_ns += allocated - over;
        over = allocated;
      }
    } else if (missing < end) {
      over = later(over, arrived(stream, page, missing));
      uint64_t allocated = miss(thread, stream, pages, missing, end, most, over);
      filling_ns += allocated - over;
      over = later(allocated, arrived(stream, missing, missing + 1));
      page = missing;
    } else {
      over = later(over, arrived(stream, page, end));
      page = end;
    }
  }
  if (page < end) { // the modelled cache has no room for its pages
    over = device_read(thread, pages->device, (end - page) * CACHE_PAGE, over);
  }
  stream->previous = end;
  return (struct arrival){over, filling_ns};
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

uint64_t prefetch(struct thread *thread, const struct pages *pages, uint64_t now) {
  struct stream *stream = stream_of(pages);
  uint64_t start = pages->offset / CACHE_PAGE;
  return stream == NULL ? 0 : fetch(thread, stream, pages, start, end_of(pages), 0, now) - now;
}

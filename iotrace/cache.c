// The modelled page cache: which pages of files the real one would have, were the tier that the
// files lie on the modelled device. All processes share it, without locks.
//
// A chunk has a bit per page for each of: resident, dirty, referenced. Chunks lie densely in the
// order of their first use, found by an index with open addressing, and are never given back. Two
// threads that add one chunk at a time may leave an unused one: that costs its space only.
#include "iotrace.h"

#define PROBES 64
#define LOOKED_AT 64 // chunks, at most, in one call
// Linux wakes its flusher every 5 s; while it has work, it looks again at once.
#define IDLE_NS 1000000000ULL

static uint64_t key_of(uint64_t file, uint64_t number) {
  uint64_t key = file ^ (number + 1) * 0x94d049bb133111ebULL;
  key = (key ^ key >> 31) * 0xbf58476d1ce4e5b9ULL;
  return (key ^ key >> 27) | 1;
}

static uint64_t chunks_used(void) {
  uint64_t used = __atomic_load_n(&models_of_page()->chunks_used, __ATOMIC_RELAXED);
  return used < CHUNKS ? used : CHUNKS;
}

// 0: there is no room.
static uint32_t new_chunk(uint64_t key, unsigned device) {
  struct models *models = models_of_page();
  uint64_t place = __atomic_fetch_add(&models->chunks_used, 1, __ATOMIC_RELAXED);
  if (place >= CHUNKS) {
    add_shared(&models->chunks_lost, 1);
    return 0;
  }
  struct chunk *chunk = &chunks_of_page()[place];
  chunk->device = device;
  __atomic_store_n(&chunk->key, key, __ATOMIC_RELAXED);
  return (uint32_t)place + 1;
}

static struct chunk *find_chunk(const struct pages *pages, uint64_t number, bool create) {
  uint64_t key = key_of(pages->file, number);
  uint32_t fresh = 0;
  for (uint64_t i = 0; i < PROBES; i++) {
    uint32_t *slot = &index_of_page()[((key >> 13) + i) % INDEX_SLOTS];
    uint32_t found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (found == 0) {
      if (!create || (fresh == 0 && (fresh = new_chunk(key, pages->device)) == 0)) {
        return NULL;
      }
      if (__atomic_compare_exchange_n(slot, &found, fresh, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
        return &chunks_of_page()[fresh - 1];
      }
    }
    if (found <= CHUNKS && chunks_of_page()[found - 1].key == key) {
      return &chunks_of_page()[found - 1];
    }
  }
  return NULL;
}

static uint64_t count(uint64_t bits) { return (uint64_t)__builtin_popcountll(bits); }

// The bits that were not set before. Reads first: most are set already.
static uint64_t set_bits(uint64_t *word, uint64_t bits) {
  uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
  if ((before & bits) != bits) {
    before = __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
  }
  return bits & ~before;
}

// Calls `change` with each word that has a page of the range, and the bits of these pages.
typedef uint64_t change_of(struct chunk *chunk, unsigned word, uint64_t bits, void *with);
static uint64_t each_word(const struct pages *pages, bool create, change_of *change, void *with) {
  uint64_t total = 0;
  if (pages->bytes == 0 || pages->file == 0) {
    return 0;
  }
  uint64_t page = pages->offset / CACHE_PAGE;
  uint64_t end = (pages->offset + pages->bytes - 1) / CACHE_PAGE + 1;
  while (page < end) {
    uint64_t number = page / CHUNK_PAGES;
    uint64_t stop = end < (number + 1) * CHUNK_PAGES ? end : (number + 1) * CHUNK_PAGES;
    struct chunk *chunk = find_chunk(pages, number, create);
    for (; chunk != NULL && page < stop;) {
      unsigned first = page % 64;
      uint64_t pages_here = 64 - first < stop - page ? 64 - first : stop - page;
      uint64_t bits = (pages_here == 64 ? ~0ULL : (1ULL << pages_here) - 1) << first;
      total += change(chunk, (unsigned)(page % CHUNK_PAGES / 64), bits, with);
      page += pages_here;
    }
    page = stop;
  }
  return total;
}

// Evicts pages until few enough are resident: those that are clean and were not used since the
// hand came by last.
static void evict(unsigned number) {
  struct models *models = models_of_page();
  const struct device *device = &models->devices[number];
  struct state *state = &models->state[number];
  uint64_t most = __atomic_load_n(&device->cache_pages, __ATOMIC_RELAXED);
  uint64_t used = chunks_used();
  for (int i = 0; most != 0 && used != 0 && i < LOOKED_AT &&
                  __atomic_load_n(&state->resident, __ATOMIC_RELAXED) > most;
       i++) {
    uint64_t hand = __atomic_fetch_add(&state->eviction_hand, 1, __ATOMIC_RELAXED);
    struct chunk *chunk = &chunks_of_page()[hand % used];
    for (int word = 0; chunk->device == number && word < CHUNK_WORDS; word++) {
      uint64_t kept = __atomic_exchange_n(&chunk->referenced[word], 0, __ATOMIC_RELAXED) |
                      __atomic_load_n(&chunk->dirty[word], __ATOMIC_RELAXED);
      uint64_t before = __atomic_fetch_and(&chunk->resident[word], kept, __ATOMIC_RELAXED);
      add_shared(&state->resident, 0 - count(before & ~kept));
    }
  }
}

static uint64_t make_resident(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  set_bits(&chunk->referenced[word], bits);
  uint64_t added = set_bits(&chunk->resident[word], bits);
  if (__atomic_load_n(&chunk->marked[word], __ATOMIC_RELAXED) & added) { // from before an eviction
    __atomic_fetch_and(&chunk->marked[word], ~added, __ATOMIC_RELAXED);
  }
  return count(added);
}

static void note_resident(unsigned device, uint64_t added) {
  if (added != 0) {
    add_shared(&models_of_page()->state[device].resident, added);
    evict(device);
  }
}

static uint64_t refer(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  set_bits(&chunk->referenced[word], bits & __atomic_load_n(&chunk->resident[word], __ATOMIC_RELAXED));
  return 0;
}

void cache_use(const struct pages *pages) { each_word(pages, false, refer, NULL); }

static struct state *state_of(const struct chunk *chunk) {
  return &models_of_page()->state[chunk->device % OTHER];
}

static uint64_t drop(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  uint64_t clean_ones = bits & ~__atomic_load_n(&chunk->dirty[word], __ATOMIC_RELAXED);
  uint64_t before = __atomic_fetch_and(&chunk->resident[word], ~clean_ones, __ATOMIC_RELAXED);
  add_shared(&state_of(chunk)->resident, 0 - count(before & clean_ones));
  return 0;
}

uint64_t cache_fill(const struct pages *pages) {
  uint64_t missing = each_word(pages, true, make_resident, NULL);
  note_resident(pages->device, missing);
  return missing * CACHE_PAGE;
}

static bool is_resident(const struct chunk *chunk, uint64_t page) {
  uint64_t word = __atomic_load_n(&chunk->resident[page % CHUNK_PAGES / 64], __ATOMIC_RELAXED);
  return word >> (page % 64) & 1;
}

uint64_t cache_missing(const struct pages *pages, uint64_t from, uint64_t to) {
  while (from < to) {
    const struct chunk *chunk = find_chunk(pages, from / CHUNK_PAGES, false);
    uint64_t stop = (from / CHUNK_PAGES + 1) * CHUNK_PAGES;
    for (; from < stop && from < to; from++) {
      if (chunk == NULL || !is_resident(chunk, from)) {
        return from;
      }
    }
  }
  return to;
}

static uint64_t mark(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  set_bits(&chunk->marked[word], bits);
  return 0;
}

void cache_mark(const struct pages *pages) { each_word(pages, false, mark, NULL); }

uint64_t cache_take_mark(const struct pages *pages, uint64_t from, uint64_t to) {
  while (from < to) {
    struct chunk *chunk = find_chunk(pages, from / CHUNK_PAGES, false);
    uint64_t stop = (from / CHUNK_PAGES + 1) * CHUNK_PAGES;
    for (; from < stop && from < to; from++) {
      uint64_t bit = 1ULL << (from % 64);
      uint64_t *word = chunk == NULL ? NULL : &chunk->marked[from % CHUNK_PAGES / 64];
      if (word != NULL && __atomic_load_n(word, __ATOMIC_RELAXED) & bit &&
          __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit) {
        return from;
      }
    }
  }
  return to;
}

uint64_t cache_history(const struct pages *pages, uint64_t before, uint64_t most) {
  const struct chunk *chunk = NULL;
  uint64_t page = before;
  for (; page > 0 && before - page < most; page--) {
    if (chunk == NULL || page % CHUNK_PAGES == 0) {
      chunk = find_chunk(pages, (page - 1) / CHUNK_PAGES, false);
    }
    if (chunk == NULL || !is_resident(chunk, page - 1)) {
      break;
    }
  }
  return before - page;
}

void cache_drop(const struct pages *pages) { each_word(pages, false, drop, NULL); }

static uint64_t make_dirty(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  struct state *state = state_of(chunk);
  uint64_t added = count(set_bits(&chunk->dirty[word], bits));
  if (added != 0) {
    uint64_t none = 0;
    __atomic_compare_exchange_n(&chunk->dirtied_ns, &none, *(uint64_t *)with, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    add_shared(&state->dirty, added);
  }
  return make_resident(chunk, word, bits, NULL);
}

bool cache_write(const struct pages *pages, uint64_t now) {
  struct models *models = models_of_page();
  const struct device *device = &models->devices[pages->device];
  note_resident(pages->device, each_word(pages, true, make_dirty, &now));
  uint64_t dirty = __atomic_load_n(&models->state[pages->device].dirty, __ATOMIC_RELAXED);
  return device->throttle_pages != 0 && dirty > device->throttle_pages;
}

// `with`: NULL, or a time, which becomes that when what is under way of the chunk is written.
static uint64_t clean(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  if (with != NULL) {
    uint64_t *until = with;
    *until = later(*until, __atomic_load_n(&chunk->written_at, __ATOMIC_RELAXED));
  }
  if (__atomic_load_n(&chunk->dirty[word], __ATOMIC_RELAXED) == 0) {
    return 0;
  }
  uint64_t before = __atomic_fetch_and(&chunk->dirty[word], ~bits, __ATOMIC_RELAXED);
  uint64_t cleaned = count(before & bits);
  add_shared(&state_of(chunk)->dirty, 0 - cleaned);
  return cleaned;
}

uint64_t cache_sync(const struct pages *pages, uint64_t *start) {
  return each_word(pages, false, clean, start) * CACHE_PAGE;
}

static uint64_t note_write(struct chunk *chunk, unsigned word, uint64_t bits, void *with) {
  __atomic_store_n(&chunk->written_at, *(uint64_t *)with, __ATOMIC_RELAXED);
  return 0;
}

void cache_note_write(const struct pages *pages, uint64_t end) {
  each_word(pages, false, note_write, &end);
}

void cache_discard(const struct pages *pages) {
  each_word(pages, false, clean, NULL);
  cache_drop(pages);
}

uint64_t cache_write_back(unsigned number, uint64_t now, struct chunk **taken) {
  struct models *models = models_of_page();
  const struct device *device = &models->devices[number];
  struct state *state = &models->state[number];
  uint64_t used = chunks_used();
  bool pressed = __atomic_load_n(&state->dirty, __ATOMIC_RELAXED) > device->background_pages;
  for (int i = 0; used != 0 && i < LOOKED_AT; i++) {
    uint64_t hand = __atomic_fetch_add(&state->write_back_hand, 1, __ATOMIC_RELAXED) % used;
    struct chunk *chunk = &chunks_of_page()[hand];
    uint64_t since = __atomic_load_n(&chunk->dirtied_ns, __ATOMIC_RELAXED);
    if (chunk->device != number || since == 0 || (!pressed && now < since + device->expire_ns)) {
      continue;
    }
    __atomic_store_n(&chunk->dirtied_ns, 0, __ATOMIC_RELAXED);
    uint64_t cleaned = 0;
    for (unsigned word = 0; word < CHUNK_WORDS; word++) {
      cleaned += clean(chunk, word, ~0ULL, NULL);
    }
    if (cleaned != 0) {
      *taken = chunk;
      return cleaned * CACHE_PAGE;
    }
  }
  __atomic_store_n(&state->write_back_at, now + IDLE_NS, __ATOMIC_RELAXED);
  return 0;
}

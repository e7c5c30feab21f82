// When a call would have ended on a device that is not there.
//
// The device serves `servers` requests at once, each in a time that is drawn from the quantiles of
// its operation and size, and moves no more bytes a second than its bandwidth, nor more requests of
// a size than it can; a throttle lets pass at once what it allows in a slice of time. Reads and
// writes share all that, or have each their own. The queue is kept in virtual time: a request takes
// the server that is free first, from then on. Nothing is locked: a server is taken by one
// compare-and-exchange.
#include "iotrace.h"

#define PROBABILITY_ONE 4294967296ULL
#define MEBIBYTE (1ULL << 20)
// The most that a request moves before others have their turn, as large as those of block devices.
#define TURN_BYTES (256ULL << 10)
// A turn that takes less is not worth a sleep.
#define SHORTEST_TURN_NS 50000

// Between two quantiles, durations are level and then rise in a straight line, or rise and then are
// level, such that their mean is the stated one. harness/models/durations.py has the same shape.
static uint64_t at_quantile(const struct models *models, const struct durations *ns,
                            uint64_t probability) {
  unsigned i = 1;
  while (i < MODEL_QUANTILES - 1 && models->probability[i] < probability) {
    i++;
  }
  uint64_t begin = models->probability[i - 1], end = models->probability[i];
  double share = end > begin ? (double)(probability - begin) / (double)(end - begin) : 0.0;
  double low = (double)ns->quantile[i - 1], width = (double)ns->quantile[i] - low;
  if (width <= 0) {
    return ns->quantile[i - 1];
  }
  double above = ((double)ns->mean[i - 1] - low) / width, risen = 0;
  if (above <= 0.5) {
    double level = 1 - 2 * above;
    risen = share > level ? (share - level) / (1 - level) : 0;
  } else {
    double rising = 2 * (1 - above);
    risen = share < rising ? share / rising : 1;
  }
  return (uint64_t)(low + width * risen);
}

// Between two sizes, durations are taken to be linear in the size. Above the largest, they grow by
// the time that the device's bandwidth allows; where that is unknown, or is a throttle's that bursts
// pass, as between the last two.
static uint64_t draw(struct thread *thread, const struct service *service, uint64_t bytes,
                     uint64_t ps_per_byte) {
  const struct models *models = models_of_page();
  uint64_t points = service->points < MODEL_POINTS ? service->points : MODEL_POINTS;
  if (points == 0) {
    return 0;
  }
  uint64_t probability = random_number(thread) % PROBABILITY_ONE;
  size_t upper = 0;
  while (upper < points - 1 && service->bytes[upper] < bytes) {
    upper++;
  }
  uint64_t ns = at_quantile(models, &service->ns[upper], probability);
  if (bytes > service->bytes[upper] && ps_per_byte != 0) {
    return ns + (uint64_t)((double)(bytes - service->bytes[upper]) * (double)ps_per_byte / 1000.0);
  }
  if (upper == 0 || bytes == service->bytes[upper]) {
    return ns;
  }
  uint64_t below = at_quantile(models, &service->ns[upper - 1], probability);
  double width = (double)(service->bytes[upper] - service->bytes[upper - 1]);
  double share = (double)(bytes - service->bytes[upper - 1]) / width;
  double result = (double)below + share * ((double)ns - (double)below);
  return result > 0 ? (uint64_t)result : 0;
}

// Takes a resource that is free at `*free_at`, for `ns`, not before `start`; when it is done.
static bool take(uint64_t *free_at, uint64_t seen, uint64_t start, uint64_t ns, uint64_t *end) {
  *end = later(start, seen) + ns;
  return __atomic_compare_exchange_n(free_at, &seen, *end, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

// Linear between the depths that are powers of two.
static double at_depth(const uint64_t longer_ns[MODEL_DEPTHS], uint64_t depth) {
  unsigned below = 63 - (unsigned)__builtin_clzll(depth);
  uint64_t base = 1ULL << below;
  double longer = (double)longer_ns[below];
  if (depth == base) {
    return longer;
  }
  double share = (double)(depth - base) / (double)base;
  return longer + share * ((double)longer_ns[below + 1] - longer);
}

// By how much a read takes longer, as other requests are under way as it comes; linear between sizes.
static uint64_t longer_at_depth(const struct device *device, const struct state *state,
                                uint64_t start, uint64_t bytes) {
  size_t sizes = device->depth_sizes < MODEL_DEPTH_SIZES ? device->depth_sizes : MODEL_DEPTH_SIZES;
  if (sizes == 0) {
    return 0;
  }
  uint64_t servers = device->servers < MODEL_SERVERS ? device->servers : MODEL_SERVERS, depth = 1;
  for (size_t i = 0; i < servers; i++) {
    depth += __atomic_load_n(&state->free_at[0][i], __ATOMIC_RELAXED) > start;
  }
  depth = depth < MODEL_SERVERS ? depth : MODEL_SERVERS;
  size_t upper = 0;
  while (upper < sizes - 1 && device->depth_bytes[upper] < bytes) {
    upper++;
  }
  double longer = at_depth(device->depth_longer_ns[upper], depth);
  if (upper == 0 || bytes >= device->depth_bytes[upper]) {
    return (uint64_t)longer;
  }
  double smaller = at_depth(device->depth_longer_ns[upper - 1], depth);
  uint64_t low = device->depth_bytes[upper - 1];
  double share = (double)(bytes - low) / (double)(device->depth_bytes[upper] - low);
  return (uint64_t)(smaller + share * (longer - smaller));
}

static uint64_t serve(const struct device *device, struct state *state, uint64_t start,
                      uint64_t service_ns, bool writes) {
  uint64_t *free_at = state->free_at[writes && device->separate];
  uint64_t servers = device->servers < MODEL_SERVERS ? device->servers : MODEL_SERVERS;
  for (;;) {
    size_t best = 0;
    uint64_t earliest = UINT64_MAX, end;
    for (size_t i = 0; i < servers && earliest > start; i++) {
      uint64_t seen = __atomic_load_n(&free_at[i], __ATOMIC_RELAXED);
      if (seen < earliest) {
        best = i;
        earliest = seen;
      }
    }
    if (take(&free_at[best], earliest, start, service_ns, &end)) {
      return end;
    }
  }
}

static bool states_rates(const struct service *service) {
  return service->points != 0 && service->points <= MODEL_POINTS &&
         service->occupied_ns[service->points - 1] != 0;
}

// For how long a request takes the device from all others. Many small ones move less than a large
// one; one that is larger than all sizes takes as long as the largest, or what its bytes take.
static uint64_t occupied(const struct device *device, unsigned operation, uint64_t bytes) {
  const struct service *service = &device->service[operation];
  double each = (double)device->ps_per_byte[operation != READ] / 1000.0;
  uint64_t moved_ns = (uint64_t)((double)bytes * each);
  if (operation != READ && !states_rates(service)) {
    service = &device->service[WRITE];
  }
  if (!states_rates(service)) {
    return moved_ns;
  }
  size_t last = service->points - 1, upper = 0;
  while (upper < last && service->bytes[upper] < bytes) {
    upper++;
  }
  uint64_t size = service->bytes[upper], ns = service->occupied_ns[upper];
  if (bytes >= size) {
    return later(ns, moved_ns);
  }
  uint64_t low = upper == 0 ? 0 : service->bytes[upper - 1];
  double low_ns = upper == 0 ? 0 : (double)service->occupied_ns[upper - 1];
  double share = (double)(bytes - low) / (double)(size - low);
  return (uint64_t)(low_ns + ((double)ns - low_ns) * share);
}

// What the burst of a direction takes of its limit.
static uint64_t burst_ns(const struct device *device, bool writes) {
  return (uint64_t)((double)device->burst_bytes[writes] * (double)device->ps_per_byte[writes] /
                    1000.0);
}

// Slices of a throttle, each as long as its burst takes, follow one another from the first request
// after a pause, which `*first` is then. Returns from when on the limit counts for a request that
// comes at `start`: all that a slice allows may pass as it begins, and what is left in the next one.
static uint64_t counts_from(uint64_t *first, uint64_t start, uint64_t seen, uint64_t slice) {
  uint64_t since = later(start, *first) - *first, passed = since - since % slice;
  uint64_t current = *first + passed;
  if (*first == 0 || seen + 3 * slice <= current) {
    *first = current = start;
    passed = 0;
  }
  uint64_t before = slice + least(slice, passed);
  return current - least(before, current);
}

// While both directions are under way on a device that they share, each has half of it: what a
// request and the other direction's are under way together takes twice as long. In order, a request
// waits for the other direction's.
static uint64_t transfer(const struct device *device, struct state *state, uint64_t start,
                         uint64_t ns, bool writes) {
  uint64_t *busy_until = &state->transferred_at[writes], *slices_from = &state->slices_from[writes];
  if (ns == 0) {
    return start;
  }
  uint64_t burst = burst_ns(device, writes), first = 0, from = start - least(burst, start);
  bool buffers = writes && device->program_bytes != 0, slices = burst != 0 && !buffers;
  uint64_t together, end, seen;
  do {
    seen = __atomic_load_n(busy_until, __ATOMIC_RELAXED);
    if (slices) {
      first = __atomic_load_n(slices_from, __ATOMIC_RELAXED);
      from = counts_from(&first, start, seen, burst);
      __atomic_store_n(slices_from, first, __ATOMIC_RELAXED);
    }
    uint64_t begin = later(from, seen) + burst;
    uint64_t others = __atomic_load_n(&state->transferred_at[!writes], __ATOMIC_RELAXED) +
                      burst_ns(device, !writes);
    uint64_t left = device->separate ? 0 : later(others, begin) - begin;
    together = device->in_order ? left : least(ns, left);
  } while (!take(busy_until, seen, from, ns + together, &end));
  // A throttle holds what a slice does not allow until the next one begins.
  return slices ? first + (later(end, first) - first + burst - 1) / burst * burst : end;
}

// Programs the buffered bytes of which there are enough, in the background, once they are written.
static void program(const struct device *device, struct state *state, uint64_t written,
                    uint64_t bytes) {
  uint64_t each = device->program_bytes;
  uint64_t before = __atomic_fetch_add(&state->buffered, bytes, __ATOMIC_RELAXED);
  if ((before + bytes) / each == before / each) {
    return;
  }
  uint64_t drained =
      __atomic_load_n(&state->transferred_at[1], __ATOMIC_RELAXED) + burst_ns(device, true);
  uint64_t end = later(drained, written + device->program_ns);
  uint64_t seen = __atomic_load_n(&state->programmed_at, __ATOMIC_RELAXED);
  while (seen < end && !__atomic_compare_exchange_n(&state->programmed_at, &seen, end, false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static uint64_t turn(const struct device *device, struct state *state, uint64_t start,
                     uint64_t service_ns, uint64_t transfer_ns, uint64_t bytes, bool writes) {
  uint64_t served = serve(device, state, start, service_ns, writes);
  uint64_t end = later(served, transfer(device, state, start, transfer_ns, writes));
  if (writes && device->program_bytes != 0) {
    program(device, state, end, bytes);
  }
  return end;
}

// Returns when a request that the device gets at `start` is done. A caller that waits for it takes
// its turns as they come: while a large request is under way, small ones are served in between.
static uint64_t request(struct thread *thread, unsigned number, unsigned operation,
                        uint64_t bytes, uint64_t start, bool waits) {
  struct models *models = models_of_page();
  const struct device *device = &models->devices[number];
  struct state *state = &models->state[number];
  bool writes = operation != READ, bursts = device->burst_bytes[writes] != 0;
  uint64_t service_ns = draw(thread, &device->service[operation], bytes,
                             bursts ? 0 : device->ps_per_byte[writes]);
  service_ns += operation == READ ? longer_at_depth(device, state, start, bytes) : 0;
  uint64_t transfer_ns = occupied(device, operation, bytes);
  uint64_t turns = (bytes + TURN_BYTES - 1) / TURN_BYTES;
  if (turns > later(service_ns, transfer_ns) / SHORTEST_TURN_NS) {
    turns = later(service_ns, transfer_ns) / SHORTEST_TURN_NS;
  }
  if (turns == 0 || !waits || device->in_order || device->page_cache == BUFFERED_AS_AN_ENGINE_SAW) {
    turns = 1;
  }
  uint64_t end = start;
  for (uint64_t i = 0; i < turns; i++) {
    uint64_t part = bytes * (i + 1) / turns - bytes * i / turns;
    if (i != 0) {
      sleep_until(end);
    }
    end = turn(device, state, end, service_ns / turns, transfer_ns / turns, part, writes);
  }
  return writes && operation != WRITE
             ? later(end, __atomic_load_n(&state->programmed_at, __ATOMIC_RELAXED))
             : end;
}

uint64_t device_read(struct thread *thread, unsigned device, uint64_t bytes, uint64_t start) {
  return request(thread, device, READ, bytes, start, false);
}

// The service of a sync, by whether the file grew.
static unsigned sync_of(unsigned number, enum growth growth) {
  return growth != NO_GROWTH && models_of_page()->devices[number].service[OPERATIONS].points != 0 ? OPERATIONS
                                                                                   : SYNC;
}

// Writes back one chunk after the other, in the background: the device is busy, and no call waits.
static void write_back(struct thread *thread, unsigned number, uint64_t now) {
  struct state *state = &models_of_page()->state[number];
  uint64_t due = __atomic_load_n(&state->write_back_at, __ATOMIC_RELAXED);
  if (now < due || !__atomic_compare_exchange_n(&state->write_back_at, &due, now + MEBIBYTE, false,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    return;
  }
  struct chunk *chunk;
  uint64_t bytes = cache_write_back(number, now, &chunk);
  if (bytes != 0) {
    uint64_t end = request(thread, number, WRITE, bytes, now, false);
    __atomic_store_n(&chunk->written_at, end, __ATOMIC_RELAXED);
    __atomic_store_n(&state->write_back_at, end, __ATOMIC_RELAXED);
  }
}

static struct due device_due(unsigned number, enum operation operation, uint64_t end_ns) {
  return (struct due){.modelled = true,
                      .end_ns = end_ns,
                      .waits = 1,
                      .processor_ns = models_of_page()->devices[number].processor_ns[operation]};
}

// Of 100 syncs, whose threads sleep for their writes and for the flush. The other waits are of the
// device's workers, and cost no time where processors are free.
#define SLEEPS_OF_100 200

static struct due sync_due(struct thread *thread, unsigned number, uint64_t bytes, uint64_t end_ns) {
  const struct device *device = &models_of_page()->devices[number];
  struct due due = device_due(number, SYNC, end_ns);
  if (bytes != 0) {
    uint64_t waits = device->sync_waits_of_100;
    waits = thread->wanted == 0 && waits > SLEEPS_OF_100 ? SLEEPS_OF_100 : waits;
    due.waits = (unsigned)((waits + random_number(thread) % 100) / 100);
  }
  return due;
}

bool models_sync(enum part part) {
  if (page == NULL || part == OTHER) {
    return false;
  }
  uint64_t device = models_of_page()->device_of[part];
  return device != 0 && device <= OTHER &&
         models_of_page()->devices[device - 1].processor_ns[SYNC] != 0;
}

static struct due buffered(struct thread *thread, unsigned number, const struct access *access,
                           uint64_t start) {
  struct pages pages = {number, access->descriptor, identity_of(access->descriptor),
                        access->offset, access->bytes};
  write_back(thread, number, start);
  if (access->operation == READ) {
    struct arrival found = read_through_cache(thread, &pages, start);
    const struct device *device = &models_of_page()->devices[number];
    bool copies = device->page_cache == BUFFERED;
    return found.end_ns <= start
               ? (struct due){.cached = true}
               : (struct due){.modelled = true,
                              .copies = copies,
                              .waits = 1,
                              .end_ns = found.end_ns,
                              .filling_ns = found.filling_ns,
                              .processor_ns = device->processor_ns[READ]};
  }
  if (access->operation == WRITE) {
    if (!cache_write(&pages, start)) {
      if (!access->file.durable) {
        return (struct due){.cached = true};
      }
    } else if (!access->file.durable) {
      struct chunk *chunk;
      uint64_t bytes = cache_write_back(number, start, &chunk);
      return device_due(number, WRITE, request(thread, number, WRITE, bytes, start, true));
    }
    cache_sync(&pages, &start);
    unsigned sync = sync_of(number, access->growth);
    return sync_due(thread, number, access->bytes,
                    request(thread, number, sync, access->bytes, start, true));
  }
  pages.offset = 0; // and not where the next write() goes
  pages.bytes = size_of(access->descriptor);
  uint64_t dirty = cache_sync(&pages, &start);
  unsigned sync = sync_of(number, access->growth);
  return sync_due(thread, number, dirty, request(thread, number, sync, dirty, start, true));
}

struct due due_at(struct thread *thread, const struct access *access, uint64_t start) {
  uint64_t device = models_of_page()->device_of[access->part];
  if (device == 0 || device > OTHER) {
    return (struct due){0};
  }
  unsigned number = (unsigned)device - 1;
  if (models_of_page()->devices[number].page_cache && !access->file.direct) {
    struct due due = buffered(thread, number, access, start);
    due.as_engine_saw = models_of_page()->devices[number].page_cache == BUFFERED_AS_AN_ENGINE_SAW;
    return due;
  }
  bool durable = access->operation == WRITE && access->file.durable;
  enum operation operation = durable ? SYNC : access->operation;
  // What direct writes moved is on the device when it is synced: only its cache is flushed then.
  bool moved = access->operation == SYNC && models_of_page()->devices[number].page_cache != UNBUFFERED;
  uint64_t bytes = moved ? 0 : access->bytes;
  uint64_t end_ns = request(thread, number, operation, bytes, start, true);
  return durable ? sync_due(thread, number, access->bytes, end_ns)
                 : device_due(number, operation, end_ns);
}

// The modelled device of a descriptor's file, if its page cache is modelled; -1: it has none.
static int cached_device(int descriptor) {
  struct file file = page == NULL ? (struct file){.part = OTHER} : file_of(descriptor);
  uint64_t device = file.part == OTHER ? 0 : models_of_page()->device_of[file.part];
  bool modelled = device != 0 && device <= OTHER && !file.direct &&
                  models_of_page()->devices[device - 1].page_cache;
  return modelled ? (int)device - 1 : -1;
}

// The range of a file that a call names, of which 0 bytes reach to its end.
static struct pages range_of(int device, int descriptor, uint64_t offset, uint64_t bytes) {
  struct pages pages = {(unsigned)device, descriptor, identity_of(descriptor), offset, bytes};
  uint64_t size = size_of(descriptor);
  if (bytes == 0 || offset + bytes > size) {
    pages.bytes = offset < size ? size - offset : 0;
  }
  return pages;
}

uint64_t start_write_back(int descriptor, uint64_t offset, uint64_t bytes) {
  int device = cached_device(descriptor);
  struct thread *thread = device < 0 ? NULL : this_thread();
  if (thread == NULL) {
    return 0;
  }
  struct pages pages = range_of(device, descriptor, offset, bytes);
  uint64_t end = now_ns();
  uint64_t dirty = cache_sync(&pages, &end);
  if (dirty != 0) {
    end = request(thread, (unsigned)device, WRITE, dirty, end, false);
    cache_note_write(&pages, end);
  }
  return end;
}

void advised(int descriptor, uint64_t offset, uint64_t bytes, int advice) {
  int device = cached_device(descriptor);
  struct thread *thread = device < 0 ? NULL : this_thread();
  if (thread == NULL) {
    return;
  }
  struct pages pages = range_of(device, descriptor, offset, bytes);
  switch (advice) {
  case POSIX_FADV_WILLNEED:
    use_processor(prefetch(thread, &pages, now_ns()));
    break;
  case POSIX_FADV_DONTNEED:
    cache_drop(&pages);
    break;
  case POSIX_FADV_RANDOM:
  case POSIX_FADV_NORMAL:
  case POSIX_FADV_SEQUENTIAL:
    advise_stream(descriptor, advice == POSIX_FADV_RANDOM);
    break;
  default:
    break;
  }
}

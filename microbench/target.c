/*
 * Targets: anonymous memory, a file, a DAX device; mapped, and each page touched.
 *
 * The range begins at a huge page's border also in files, since a DAX file system maps
 * 2 MiB at once only where address and offset agree. A file of a directory has no name
 * (O_TMPFILE), so that nothing is left however the program ends. Files that jobs call on are
 * written instead of mapped.
 */
#include "kernel.h"
#include "target.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define MOST_NODES 1024
enum { MOST_TOUCHERS = 16, MOST_WEIGHT = 1000000 };

static bool fail(const struct mb_target *target, const char *what, struct tb_error *error)
{
    return tb_fail(error, "target %s: %s: %s", target->name, what, strerror(errno));
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- reading ---- */

const char *const mb_target_kinds[] = {"dram", "file", "devdax", NULL};
const char *const mb_target_pages[] = {"base", "huge", NULL};
const char *const mb_target_domains[] = {"none", "adr", "eadr", NULL};
static const char *const syncs[] = {"required", "preferred", "off", NULL};

#define WORD(key, member, words, fallback) \
    TB_WORD_KEY(struct mb_target, key, member, words, 0, fallback)
static const struct tb_param keys[] = {
    WORD("kind", kind, mb_target_kinds, -1),
    WORD("pages", pages, mb_target_pages, MB_HUGE),
    WORD("sync", sync, syncs, MB_SYNC_PREFERRED),
    WORD("persistence_domain", domain, mb_target_domains, MB_VOLATILE),
    TB_INTEGER_KEY(struct mb_target, "node", node, 0, INT32_MAX, -1),
    TB_INTEGER_KEY(struct mb_target, "size_bytes", size_bytes, 1, INT64_MAX / 2, 0),
    TB_INTEGER_KEY(struct mb_target, "from_bytes", from_bytes, 0, INT64_MAX / 2, 0),
    TB_FLAG_KEY(struct mb_target, "overwrite", overwrite, false),
    TB_OTHER_KEY("path"),
    TB_OTHER_KEY("placement"),
    {0},
};
#undef WORD

/* The device's own size, as Linux reports it. */
static bool devdax_size(const struct mb_target *target, uint64_t *bytes, struct tb_error *error)
{
    struct stat found;
    char path[80];
    if (stat(target->path, &found) != 0)
        return fail(target, target->path, error);
    snprintf(path, sizeof path, "/sys/dev/char/%u:%u/size", major(found.st_rdev),
             minor(found.st_rdev));
    return (S_ISCHR(found.st_mode) && tb_scan_file(path, "%" SCNu64, bytes)) ||
           tb_fail(error, "target %s: %s is not a DAX device", target->name, target->path);
}

static bool may_overwrite(const struct mb_target *target, struct tb_error *error)
{
    struct stat found;
    if (stat(target->path, &found) != 0)
        return fail(target, target->path, error);
    if (target->kind == MB_FILE && S_ISDIR(found.st_mode))
        return true;
    if (target->kind == MB_FILE && !S_ISREG(found.st_mode))
        return tb_fail(error, "target %s: %s is neither a directory nor a file", target->name,
                       target->path);
    if (!target->overwrite)
        return tb_fail(error, "target %s: measuring overwrites %s: set \"overwrite\": true if "
                              "its content is not needed", target->name, target->path);
    return true;
}

static uint64_t page_bytes(const struct mb_target *target)
{
    return target->pages == MB_HUGE ? MB_HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Numbers from `least` on: as many as there are nodes. */
static bool read_numbers(const json_t *given, const char *key, json_int_t least, json_int_t most,
                         size_t count, uint32_t *numbers, struct tb_error *error)
{
    bool right = count > 0 && json_array_size(given) == count;
    for (size_t i = 0; right && i < count; i++) {
        const json_t *number = json_array_get(given, i);
        right = json_is_integer(number) && json_integer_value(number) >= least &&
                json_integer_value(number) <= most;
        numbers[i] = (uint32_t)json_integer_value(number);
    }
    return right || tb_fail(error, "%s: must be a list of a number from %d to %d for each node",
                            key, (int)least, (int)most);
}

static bool read_extent(const struct mb_target *target, struct mb_extent *extent,
                        const json_t *given, struct tb_error *error)
{
    static const struct tb_param extent_keys[] = {
        TB_INTEGER_KEY(struct mb_extent, "bytes", bytes, 0, INT64_MAX / 2, TB_REQUIRED),
        TB_OTHER_KEY("nodes"),
        TB_OTHER_KEY("weights"),
        {0},
    };
    const json_t *nodes = json_object_get(given, "nodes");
    const json_t *weights = json_object_get(given, "weights");
    extent->count = json_array_size(nodes);
    extent->nodes = tb_allocate(extent->count + 1, sizeof *extent->nodes);
    extent->weights = tb_allocate(extent->count + 1, sizeof *extent->weights);
    if (!tb_params_known(extent_keys, NULL, given, error) ||
        !tb_params_read(extent_keys, given, extent, error) ||
        !read_numbers(nodes, "nodes", 0, MOST_NODES - 1, extent->count, extent->nodes, error) ||
        (weights && !read_numbers(weights, "weights", 1, MOST_WEIGHT, extent->count,
                                  extent->weights, error)))
        return false;
    for (size_t i = 0; weights && i < extent->count; i++)
        extent->turn += extent->weights[i];
    return extent->bytes % page_bytes(target) == 0 ||
           tb_fail(error, "bytes: must be a multiple of a page of %" PRIu64 " bytes",
                   page_bytes(target));
}

static bool read_placement(struct mb_target *target, const json_t *given, struct tb_error *error)
{
    uint64_t sum = 0;
    if (!given)
        return true;
    if (target->kind != MB_DRAM || target->node >= 0 || json_array_size(given) == 0)
        return tb_fail(error, "placement: must be a list, of kind dram without node");
    target->placement = tb_allocate(json_array_size(given), sizeof *target->placement);
    for (size_t i = 0; i < json_array_size(given); i++) {
        struct mb_extent *extent = &target->placement[target->extents++];
        if (!read_extent(target, extent, json_array_get(given, i), error))
            return tb_fail_within(error, "placement: ");
        sum += extent->bytes;
    }
    return sum == round_up(target->size_bytes, page_bytes(target)) ||
           tb_fail(error, "placement: must have as many bytes as size_bytes, in whole pages");
}

bool mb_target_read(struct mb_target *target, const char *name, const json_t *given,
                    struct tb_error *error)
{
    *target = (struct mb_target){.name = name, .fd = -1};
    uint64_t device_bytes = 0;
    if (!tb_params_known(keys, NULL, given, error) ||
        !tb_params_read(keys, given, target, error))
        return tb_fail_within(error, "target %.100s: ", name);
    target->path = json_string_value(json_object_get(given, "path"));
    if (target->kind != MB_DRAM && !target->path)
        return tb_fail(error, "target %s: path: is required", name);
    if (target->kind != MB_DRAM && !may_overwrite(target, error))
        return false;
    if (target->kind == MB_DEVDAX && !devdax_size(target, &device_bytes, error))
        return false;
    if (target->from_bytes && target->kind != MB_DEVDAX)
        return tb_fail(error, "target %s: from_bytes: only of kind devdax", name);
    if (target->from_bytes % MB_HUGE_PAGE != 0 ||
        (target->from_bytes && target->from_bytes >= device_bytes))
        return tb_fail(error, "target %s: from_bytes: must be a multiple of %d within the device",
                       name, (int)MB_HUGE_PAGE);
    device_bytes -= target->from_bytes;
    target->size_bytes = target->size_bytes ? target->size_bytes : device_bytes;
    bool whole = target->size_bytes > 0 && target->size_bytes % MB_LINE == 0;
    if (!whole || (device_bytes && target->size_bytes > device_bytes))
        return tb_fail(error, "target %s: size_bytes: must be a multiple of %d%s", name,
                       (int)MB_LINE, device_bytes ? " and at most the device's size" : "");
    return read_placement(target, json_object_get(given, "placement"), error) ||
           tb_fail_within(error, "target %.100s: ", name);
}

/* ---- mapping ---- */

/*
 * Address space for the target that begins at a multiple of `unit`. After it a page stays
 * closed, so that the kernel joins no two targets to one mapping.
 */
static char *reserve(uint64_t bytes, uint64_t unit)
{
    char *all = mmap(NULL, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *base = (char *)round_up((uint64_t)(uintptr_t)all, unit);
    if (base > all)
        munmap(all, (size_t)(base - all));
    uint64_t closed = (uint64_t)sysconf(_SC_PAGESIZE), tail = (uint64_t)(all + unit - base);
    if (tail > closed)
        munmap(base + bytes + closed, tail - closed);
    return base;
}

typedef unsigned long node_mask[MOST_NODES / (8 * sizeof(unsigned long))];

static void add_node(node_mask nodes, size_t node)
{
    size_t width = 8 * sizeof *nodes;
    nodes[node / width] |= 1ul << node % width;
}

/* Of the calling thread's allocations to come: on one node, or as Linux decides (NULL). */
static long thread_policy(const unsigned long *nodes)
{
    return syscall(SYS_set_mempolicy, nodes ? MPOL_BIND : MPOL_DEFAULT, nodes,
                   nodes ? (unsigned long)MOST_NODES : 0ul);
}

/* Of the calling thread's allocations to come, or of the target's mapping. */
static bool bind_to_node(const struct mb_target *target, bool of_thread, struct tb_error *error)
{
    node_mask nodes = {0};
    size_t node = (size_t)target->node;
    if (target->node < 0)
        return true;
    if (node < MOST_NODES)
        add_node(nodes, node);
    long failed = of_thread ? thread_policy(nodes)
                            /* All that is mapped: the kernel splits no page of 1 GiB. */
                            : syscall(SYS_mbind, target->base, target->mapped_bytes, MPOL_BIND,
                                      nodes, (unsigned long)MOST_NODES, 0ul);
    if (node < MOST_NODES && failed == 0)
        return true;
    return tb_fail(error, "target %s: node: cannot allocate on node %d (%s)", target->name,
                   target->node, node < MOST_NODES ? strerror(errno) : "no such node");
}

bool mb_target_allocate_there(const struct mb_target *target, struct tb_error *error)
{
    return bind_to_node(target, true, error);
}

/*
 * Each part on its nodes: page by page in turn, as Linux does by itself. Weighted pages are placed
 * as they are touched: a mapping for each run of them would be more than a process may have.
 */
static bool bind_extents(const struct mb_target *target, struct tb_error *error)
{
    uint64_t at = 0;
    for (size_t i = 0; i < target->extents; i++) {
        const struct mb_extent *extent = &target->placement[i];
        bool last = i + 1 == target->extents;
        uint64_t bytes = last ? target->mapped_bytes - at : extent->bytes;
        node_mask nodes = {0};
        for (size_t n = 0; n < extent->count; n++)
            add_node(nodes, extent->nodes[n]);
        if (bytes > 0 && !extent->turn &&
            syscall(SYS_mbind, target->base + at, bytes,
                    extent->count > 1 ? MPOL_INTERLEAVE : MPOL_BIND, nodes,
                    (unsigned long)MOST_NODES, 0ul) != 0)
            return tb_fail(error, "target %s: placement: cannot allocate on its nodes (%s)",
                           target->name, strerror(errno));
        at += bytes;
    }
    return true;
}

uint32_t mb_extent_run(const struct mb_extent *extent, uint64_t page, uint64_t *pages)
{
    uint64_t at = page % extent->turn;
    size_t i = 0;
    for (; at >= extent->weights[i]; i++)
        at -= extent->weights[i];
    *pages = extent->weights[i] - at;
    return extent->nodes[i];
}

/* Memory at the target's base, on its pages and nodes. */
static bool map_memory(const struct mb_target *target, int sharing, struct tb_error *error)
{
    int flags = sharing | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    uint64_t bytes = target->mapped_bytes;
    if (mmap(target->base, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        return fail(target, "mapping memory", error);
    int pages = target->pages == MB_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    if (madvise(target->base, bytes, pages) != 0 && target->pages == MB_HUGE)
        return fail(target, "pages: cannot get huge pages", error);
    return target->extents ? bind_extents(target, error) : bind_to_node(target, false, error);
}

static bool map_dram(struct mb_target *target, struct tb_error *error)
{
    uint64_t bytes = round_up(target->size_bytes, MB_HUGE_PAGE);
    target->base = reserve(bytes, MB_HUGE_PAGE);
    if (!target->base)
        return fail(target, "address space", error);
    target->mapped_bytes = bytes;
    return map_memory(target, MAP_PRIVATE, error);
}

static bool open_file(struct mb_target *target, struct tb_error *error)
{
    struct stat found;
    if (stat(target->path, &found) != 0)
        return fail(target, target->path, error);
    bool directory = S_ISDIR(found.st_mode);
    target->fd = open(target->path, O_RDWR | O_CLOEXEC | (directory ? O_TMPFILE : 0), 0600);
    if (target->fd < 0)
        return fail(target, target->path, error);
    if (target->kind == MB_DEVDAX)
        return true;
    int failed = posix_fallocate(target->fd, 0, (off_t)target->size_bytes);
    errno = failed;
    return failed ? fail(target, "making the file as long as size_bytes", error) : true;
}

static bool map_file(struct mb_target *target, struct tb_error *error)
{
    if (!open_file(target, error))
        return false;
    uint64_t unit = target->kind == MB_DEVDAX ? MB_HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes = round_up(target->size_bytes, unit);
    char *base = reserve(bytes, MB_GIB > bytes ? MB_HUGE_PAGE : MB_GIB);
    if (!base)
        return fail(target, "address space", error);
    target->base = base;
    target->mapped_bytes = bytes;
    int access = PROT_READ | PROT_WRITE;
    bool file = target->kind == MB_FILE;
    if (file && target->sync != MB_SYNC_OFF) {
        target->map_sync = mmap(base, bytes, access, MAP_SHARED_VALIDATE | MAP_SYNC | MAP_FIXED,
                                target->fd, 0) != MAP_FAILED;
        if (target->map_sync)
            return true;
        if (target->sync == MB_SYNC_REQUIRED)
            return fail(target, "sync: no MAP_SYNC (is it a file system mounted with dax on "
                                "persistent memory?)", error);
    }
    if (mmap(base, bytes, access, MAP_SHARED | MAP_FIXED, target->fd,
             (off_t)target->from_bytes) == MAP_FAILED)
        return fail(target, "mapping", error);
    return true;
}

/* ---- touching ---- */

struct toucher {
    pthread_t thread;
    const struct mb_target *target;
    char *base;
    uint64_t bytes, faults;
    int failed; /* an errno */
};

struct mb_faults mb_thread_faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return (struct mb_faults){.minor = (uint64_t)used.ru_minflt, .major = (uint64_t)used.ru_majflt};
}

static uint64_t page_faults(void)
{
    struct mb_faults faults = mb_thread_faults();
    return faults.minor + faults.major;
}

/* Returns an errno; 0: done. */
static int populate(char *base, uint64_t bytes)
{
    int status;
    do
        status = madvise(base, bytes, MADV_POPULATE_WRITE);
    while (status != 0 && errno == EAGAIN);
    if (status != 0 && errno == EINVAL) { /* before Linux 5.14; a page has 4 KiB at least */
        for (uint64_t at = 0; at < bytes; at += 4 * MB_KIB)
            *(volatile char *)(base + at) = 0;
        status = 0;
    }
    return status != 0 ? errno : 0;
}

/* What is touched of a weighted part: each run of its pages on its node. */
static int populate_weighted(const struct mb_extent *extent, uint64_t page, char *base,
                             uint64_t at, uint64_t end)
{
    int failed = 0;
    while (!failed && at < end) {
        uint64_t pages, left = end - at;
        node_mask nodes = {0};
        add_node(nodes, mb_extent_run(extent, at / page, &pages));
        uint64_t bytes = pages * page < left ? pages * page : left;
        failed = thread_policy(nodes) != 0 ? errno : populate(base + at, bytes);
        at += bytes;
    }
    thread_policy(NULL);
    return failed;
}

static int touch_extents(const struct toucher *part)
{
    const struct mb_target *target = part->target;
    uint64_t begin = (uint64_t)(part->base - target->base), end = begin + part->bytes, at = 0;
    int failed = 0;
    for (size_t i = 0; i < target->extents && !failed && at < end; i++) {
        const struct mb_extent *extent = &target->placement[i];
        bool last = i + 1 == target->extents;
        uint64_t bytes = last ? target->mapped_bytes - at : extent->bytes;
        uint64_t from = begin > at ? begin - at : 0, to = end - at < bytes ? end - at : bytes;
        if (from < to)
            failed = extent->turn ? populate_weighted(extent, page_bytes(target),
                                                      target->base + at, from, to)
                                  : populate(target->base + at + from, to - from);
        at += bytes;
    }
    return failed;
}

static void *touch(void *of)
{
    struct toucher *part = of;
    uint64_t before = page_faults();
    part->failed = part->target->extents ? touch_extents(part) : populate(part->base, part->bytes);
    part->faults = page_faults() - before;
    return NULL;
}

/* Each toucher at least 64 MiB, at huge pages' borders. */
static bool touch_all(struct mb_target *target, struct tb_error *error)
{
    struct toucher parts[MOST_TOUCHERS];
    uint64_t most = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), count = target->size_bytes >> 26;
    count = count > most ? most : count;
    count = count > MOST_TOUCHERS ? MOST_TOUCHERS : count ? count : 1;
    uint64_t each = round_up((target->mapped_bytes + count - 1) / count, MB_HUGE_PAGE), at = 0;
    size_t started = 0;
    int failed = 0;
    for (; at < target->mapped_bytes; at += each, started++) {
        struct toucher *part = &parts[started];
        uint64_t left = target->mapped_bytes - at;
        *part = (struct toucher){.target = target, .base = target->base + at,
                                 .bytes = left < each ? left : each};
        if (pthread_create(&part->thread, NULL, touch, part) != 0) {
            touch(part);
            part->thread = pthread_self();
        }
    }
    for (size_t i = 0; i < started; i++) {
        if (!pthread_equal(parts[i].thread, pthread_self()))
            pthread_join(parts[i].thread, NULL);
        failed = parts[i].failed ? parts[i].failed : failed;
        target->touch_faults += parts[i].faults;
    }
    errno = failed;
    return failed ? fail(target, "touching its pages", error) : true;
}

/* Whole, and with data that do not compress: what was never written is not read from a device. */
static bool write_file(struct mb_target *target, struct tb_error *error)
{
    uint64_t begin = tb_monotonic_ns();
    struct tb_random random;
    uint64_t *words = tb_allocate(1, MB_MIB);
    bool written = open_file(target, error);
    tb_random_seed(&random, 1, 0);
    for (uint64_t at = 0; written && at < target->size_bytes; at += MB_MIB) {
        uint64_t left = target->size_bytes - at, bytes = left < MB_MIB ? left : MB_MIB;
        for (uint64_t i = 0; i < bytes / sizeof *words; i++)
            words[i] = tb_random_next(&random);
        mb_stamp_all((char *)words, at, bytes);
        written = pwrite(target->fd, words, bytes, (off_t)at) == (ssize_t)bytes ||
                  fail(target, "writing the file", error);
    }
    free(words);
    written = written && (fdatasync(target->fd) == 0 || fail(target, "writing the file", error));
    target->touch_ns = tb_monotonic_ns() - begin;
    return written;
}

bool mb_target_map(struct mb_target *target, struct tb_error *error)
{
    if (target->by_calls)
        return write_file(target, error);
    if (target->by_kernels && !target->mapped)
        return true;
    uint64_t begin = tb_monotonic_ns();
    if (!(target->kind == MB_DRAM ? map_dram(target, error) : map_file(target, error)))
        return false;
    target->map_ns = tb_monotonic_ns() - begin;
    if (!touch_all(target, error))
        return false;
    target->touch_ns = tb_monotonic_ns() - begin - target->map_ns;
    return true;
}

void mb_target_unmap(struct mb_target *target)
{
    if (target->base)
        munmap(target->base, target->mapped_bytes);
    if (target->fd >= 0)
        close(target->fd);
    for (size_t i = 0; i < target->extents; i++) {
        free(target->placement[i].nodes);
        free(target->placement[i].weights);
    }
    free(target->placement);
    target->placement = NULL;
    target->extents = 0;
    target->base = NULL;
    target->fd = -1;
}

/* ---- again ---- */

bool mb_part_reserve(struct mb_part *part, const struct mb_target *target, uint64_t offset_bytes,
                     uint64_t bytes, bool shared, struct tb_error *error)
{
    uint64_t unit = target->kind == MB_DRAM || bytes < MB_GIB ? MB_HUGE_PAGE : MB_GIB;
    *part = (struct mb_part){.target = target, .base = reserve(bytes, unit),
                             .offset_bytes = offset_bytes, .bytes = bytes, .shared = shared};
    return part->base || fail(target, "address space", error);
}

bool mb_part_map(struct mb_part *part, struct tb_error *error)
{
    struct mb_target target = *part->target;
    target.base = part->base;
    target.mapped_bytes = part->bytes;
    if (target.kind == MB_DRAM)
        return map_memory(&target, part->shared ? MAP_SHARED : MAP_PRIVATE, error);
    int flags = target.map_sync ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
    off_t offset = (off_t)(target.from_bytes + part->offset_bytes);
    void *mapped = mmap(part->base, part->bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
                        target.fd, offset);
    return mapped != MAP_FAILED || fail(&target, "mapping", error);
}

bool mb_part_touch(struct mb_part *part, struct tb_error *error)
{
    errno = populate(part->base, part->bytes);
    return errno == 0 || fail(part->target, "touching its pages", error);
}

/* With the closed page after it (reserve). */
void mb_part_release(struct mb_part *part)
{
    munmap(part->base, part->bytes + (uint64_t)sysconf(_SC_PAGESIZE));
}

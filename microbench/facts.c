/* The facts of a mapped target, queried from Linux after its pages were touched. */
#include "target.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum { SAMPLED_PAGES = 256, EXTENTS_A_CALL = 256 };

/* Bytes of the target on pages of 2 MiB or more; -1 where Linux does not report it. */
static int64_t huge_by_smaps(const struct mb_target *target)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    uint64_t begin, end, kib, huge = 0;
    uint64_t first = (uint64_t)(uintptr_t)target->base, last = first + target->mapped_bytes;
    bool inside = false;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
            inside = begin < last && end > first;
        else if (inside && (sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1 ||
                            sscanf(line, "FilePmdMapped: %" SCNu64, &kib) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
                            sscanf(line, "Private_Hugetlb: %" SCNu64, &kib) == 1))
            huge += kib * MB_KIB;
    }
    if (!file)
        return -1;
    fclose(file);
    return (int64_t)huge;
}

/*
 * Likewise of DAX, whose huge pages smaps leaves out: touching took one fault a page, so that
 * their number shows how many of them were huge.
 */
static int64_t huge_by_faults(const struct mb_target *target)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = target->mapped_bytes / page;
    if (page != 4 * MB_KIB) /* a huge page is of another size there */
        return -1;
    if (target->touch_faults >= pages)
        return 0;
    uint64_t saved_by_each = MB_HUGE_PAGE / page - 1;
    uint64_t bytes = (pages - target->touch_faults) / saved_by_each * MB_HUGE_PAGE;
    return (int64_t)(bytes < target->size_bytes ? bytes : target->size_bytes);
}

/* Of pages spread over the target, how many lie on each node. */
static json_t *nodes_of(const struct mb_target *target)
{
    void *pages[SAMPLED_PAGES];
    int found[SAMPLED_PAGES];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all = target->mapped_bytes / page;
    unsigned long count = all < SAMPLED_PAGES ? (unsigned long)all : SAMPLED_PAGES;
    json_t *nodes = json_object();
    for (unsigned long i = 0; i < count; i++)
        pages[i] = target->base + all * i / count * page;
    if (syscall(SYS_move_pages, 0, count, pages, NULL, found, 0) != 0)
        return nodes; /* unknown, for instance in a container */
    for (unsigned long i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", found[i]);
        json_int_t before = json_integer_value(json_object_get(nodes, name));
        if (found[i] >= 0)
            json_object_set_new(nodes, name, json_integer(before + 1));
    }
    return nodes;
}

/* The type of the file system that the open file lies on, from mountinfo by its device. */
static json_t *filesystem_of(const struct mb_target *target)
{
    struct stat found;
    FILE *file = target->kind == MB_FILE && fstat(target->fd, &found) == 0
                     ? fopen("/proc/self/mountinfo", "r")
                     : NULL;
    char line[4096], type[64] = "";
    unsigned in_major, in_minor;
    while (file && fgets(line, sizeof line, file)) {
        const char *separator = strstr(line, " - ");
        if (separator && sscanf(line, "%*d %*d %u:%u", &in_major, &in_minor) == 2 &&
            makedev(in_major, in_minor) == found.st_dev)
            sscanf(separator, " - %63s", type);
    }
    if (file)
        fclose(file);
    return *type ? json_string(type) : json_null();
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * A file may be in pieces. The number that divides the distances by which they are displaced
 * against one another on the device: bytes that are a multiple of it apart in the file, are on the
 * device, too. 0: one piece; -1: the file system does not say.
 */
static int64_t extent_unit(const struct mb_target *target)
{
    struct fiemap *map = tb_allocate(1, sizeof *map + EXTENTS_A_CALL * sizeof *map->fm_extents);
    uint64_t at = 0, first = 0, unit = 0;
    bool known = target->kind == MB_FILE, last = !known;
    while (known && !last && at < target->size_bytes) {
        *map = (struct fiemap){.fm_start = at, .fm_length = target->size_bytes - at,
                               .fm_flags = FIEMAP_FLAG_SYNC, .fm_extent_count = EXTENTS_A_CALL};
        known = ioctl(target->fd, FS_IOC_FIEMAP, map) == 0 && map->fm_mapped_extents > 0;
        for (uint32_t i = 0; known && i < map->fm_mapped_extents; i++) {
            const struct fiemap_extent *extent = &map->fm_extents[i];
            uint64_t distance = extent->fe_physical - extent->fe_logical;
            known = !(extent->fe_flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_ENCODED));
            first = at == 0 && i == 0 ? distance : first;
            unit = common_divisor(unit, distance > first ? distance - first : first - distance);
            last = extent->fe_flags & FIEMAP_EXTENT_LAST;
        }
        if (known)
            at = map->fm_extents[map->fm_mapped_extents - 1].fe_logical +
                 map->fm_extents[map->fm_mapped_extents - 1].fe_length;
    }
    free(map);
    return known ? (int64_t)unit : -1;
}

json_t *mb_target_facts(const struct mb_target *target)
{
    bool dram = target->kind == MB_DRAM;
    bool dax = target->map_sync || target->kind == MB_DEVDAX;
    int64_t huge = dram && !target->base ? -1
                   : dax                   ? huge_by_faults(target)
                                           : huge_by_smaps(target);
    int64_t unit = extent_unit(target);
    return json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:I}", "kind",
        mb_target_kinds[target->kind], "size_bytes", (json_int_t)target->size_bytes, "pages",
        dram ? json_string(mb_target_pages[target->pages]) : json_null(), "huge_bytes",
        huge < 0 ? json_null() : json_integer(huge), "nodes", nodes_of(target), "map_sync",
        dram ? json_null() : json_boolean(target->map_sync), "filesystem",
        filesystem_of(target), "extent_unit_bytes", unit < 0 ? json_null() : json_integer(unit),
        "persistence_domain", mb_target_domains[target->domain], "map_ns",
        (json_int_t)target->map_ns, "touch_ns", (json_int_t)target->touch_ns);
}

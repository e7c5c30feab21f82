/* Where bytes lie: found out before anything is allocated, then allocated and touched. */
#pragma once

#include "job.h"

/* The words of its keys and facts, ended by NULL. */
extern const char *const mb_target_kinds[], *const mb_target_pages[], *const mb_target_domains[];

/* Reads the keys and finds out the size; nothing is allocated yet. */
bool mb_target_read(struct mb_target *target, const char *name, const json_t *given,
                    struct tb_error *error);
/* Maps it, and touches each page, by several threads; or writes a file that jobs call on. */
bool mb_target_map(struct mb_target *target, struct tb_error *error);
/*
 * In the first word of each block of a file that jobs call on stands what only this block has, so
 * that whoever reads it knows whether it is the right one.
 */
#define MB_STAMPED_BYTES UINT64_C(4096)
static inline uint64_t mb_stamp(uint64_t offset) { return tb_mix(offset + 1); }
/* Of the blocks that begin within `size` bytes which go to this place of the file. */
static inline void mb_stamp_all(char *bytes, uint64_t offset, uint64_t size)
{
    uint64_t at = (offset + MB_STAMPED_BYTES - 1) / MB_STAMPED_BYTES * MB_STAMPED_BYTES;
    for (; at < offset + size; at += MB_STAMPED_BYTES)
        memcpy(bytes + (at - offset), &(uint64_t){mb_stamp(at)}, sizeof(uint64_t));
}
void mb_target_unmap(struct mb_target *target);
/* A part of a target that is mapped again: memory is new, a file or device has its content. */
struct mb_part {
    const struct mb_target *target;
    char *base;
    uint64_t offset_bytes, bytes;
    bool shared;
};
/* Address space alone; then the mapping, with its pages and nodes; then all its pages. */
bool mb_part_reserve(struct mb_part *part, const struct mb_target *target, uint64_t offset_bytes,
                     uint64_t bytes, bool shared, struct tb_error *error);
bool mb_part_map(struct mb_part *part, struct tb_error *error);
bool mb_part_touch(struct mb_part *part, struct tb_error *error);
void mb_part_release(struct mb_part *part);
/* What the calling thread allocates from now on lies on the target's node, if it names one. */
bool mb_target_allocate_there(const struct mb_target *target, struct tb_error *error);
/* The node of a page of a weighted part, and how many pages from it on lie there one after another. */
uint32_t mb_extent_run(const struct mb_extent *extent, uint64_t page, uint64_t *pages);
/* What it turned out to be: page sizes, nodes, file system …, as printed. */
json_t *mb_target_facts(const struct mb_target *target);

/* Of the calling thread since it began: the page was in memory, or came from storage. */
struct mb_faults {
    uint64_t minor, major;
};
struct mb_faults mb_thread_faults(void);

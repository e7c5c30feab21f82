/* Where bytes lie: found out before anything is allocated, then allocated and touched. */
#pragma once

#include "job.h"

/* The words of its keys and facts, ended by NULL. */
extern const char *const mb_target_kinds[], *const mb_target_pages[], *const mb_target_domains[];

/* Reads the keys and finds out the size; nothing is allocated yet. */
bool mb_target_read(struct mb_target *target, const char *name, const json_t *given,
                    struct tb_error *error);
/* Maps it, and touches each page, by several threads. */
bool mb_target_map(struct mb_target *target, struct tb_error *error);
void mb_target_unmap(struct mb_target *target);
/* What the calling thread allocates from now on lies on the target's node, if it names one. */
bool mb_target_allocate_there(const struct mb_target *target, struct tb_error *error);
/* What it turned out to be: page sizes, nodes, file system …, as printed. */
json_t *mb_target_facts(const struct mb_target *target);

/* Of the calling thread since it began: the page was in memory, or came from storage. */
struct mb_faults {
    uint64_t minor, major;
};
struct mb_faults mb_thread_faults(void);

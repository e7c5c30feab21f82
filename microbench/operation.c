/* What one operation executes, and whether what it wrote survives a loss of power. */
#include "kernel.h"

const char *const mb_isa_names[] = {"sse2", "avx2", "avx512", "neon", "auto", NULL};
const char *const mb_access_names[] = {"load", "ntload", "store", "ntstore", "empty", NULL};
const char *const mb_flush_names[] = {"none", "clwb", "clflushopt", "clflush", NULL};
const char *const mb_fence_names[] = {"none", "sfence", "mfence", NULL};
const char *const mb_flush_whens[] = {"write", "line", NULL};

bool mb_isa_settle(enum mb_isa *isa, struct tb_error *error)
{
    for (int i = MB_ISAS - 1; i >= 0 && *isa == MB_ISAS; i--)
        if (mb_cpu.isa[i])
            *isa = (enum mb_isa)i;
    return mb_cpu.isa[*isa] || tb_fail(error, "isa: this processor has no %s (%s)",
                                       mb_isa_names[*isa], mb_cpu.model);
}

bool mb_flush_there(const char *key, enum mb_flush flush, struct tb_error *error)
{
    return mb_cpu.flush[flush] || tb_fail(error, "%s: this processor has no %s (%s)", key,
                                          mb_flush_names[flush], mb_cpu.model);
}

bool mb_operation_settle(const struct mb_job *job, struct mb_operation *operation,
                         struct tb_error *error)
{
    uint64_t bytes = operation->bytes, part = job->range_bytes / job->partitions;
    uint64_t every = operation->fence_every_bytes ? operation->fence_every_bytes : bytes;
    operation->fence_every_bytes = every;
    if (!mb_isa_settle(&operation->isa, error) || !mb_flush_there("flush", operation->flush, error))
        return false;
    if (operation->flush != MB_NO_FLUSH && operation->access != MB_STORE)
        return tb_fail(error, "flush: %s leaves no line in the cache to flush",
                       mb_access_names[operation->access]);
    operation->flush_each_line &= operation->flush != MB_NO_FLUSH;
    if (bytes > part)
        return tb_fail(error, "access_bytes: a partition of the range has only %" PRIu64 " bytes",
                       part);
    if (bytes % every && every % bytes)
        return tb_fail(error, "fence_every_bytes: must be a multiple or a divisor of access_bytes");
    return true;
}

/* NULL where this flush, or store past the caches, reaches what survives; else why it does not. */
static const char *why_unpersisted(const struct mb_persist *persist)
{
    if (!persist->non_temporal && persist->flush == MB_NO_FLUSH)
        return "what is stored stays in the cache";
#if defined(__aarch64__)
    if (persist->flush != MB_CLWB)
        return "on arm64 only clwb (dc cvap) reaches the point of persistence: clflush and clflushopt "
               "(dc civac) end at the point of coherency, and ntstore (stnp) is a hint";
#endif
    return NULL;
}

const char *mb_durable(const struct mb_target *target, const struct mb_persist *persist,
                       const char **why)
{
    bool drained = persist->fence != MB_NO_FENCE;
    const char *unpersisted = why_unpersisted(persist);
    bool mapped = target->kind == MB_DEVDAX || (target->kind == MB_FILE && target->map_sync);
    if (target->kind == MB_DRAM)
        *why = "DRAM forgets";
    else if (!mapped)
        *why = "the file is not mapped with MAP_SYNC: what is flushed may lie in the page cache, "
               "or its place in the file may be forgotten";
    else if (target->domain == MB_VOLATILE)
        *why = "nothing is known of a persistence domain of this device";
    else if (!unpersisted && drained)
        return *why = "flushed, then fenced", "yes";
    else if (target->domain == MB_EADR)
        return *why = "only because the caches are in the persistence domain (eADR)", "eADR";
    else
        *why = unpersisted ? unpersisted : "no fence waits for the flush";
    return "no";
}

static int rank(const char *durable)
{
    return strcmp(durable, "no") == 0 ? 0 : strcmp(durable, "eADR") == 0 ? 1 : 2;
}

const char *mb_durable_job(const struct mb_job *job, const struct mb_persist *persist,
                           const char **why)
{
    const char *first = mb_durable(job->target, persist, why);
    if (!persist->second)
        return first;
    const char *why_second, *second = mb_durable(persist->second, persist, &why_second);
    if (!persist->second_alone && rank(first) <= rank(second))
        return first;
    return *why = why_second, second;
}

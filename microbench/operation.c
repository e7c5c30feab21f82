/* What one operation executes, and whether what it wrote survives a loss of power. */
#include "kernel.h"

#include <string.h>

const char *const mb_isa_names[MB_ISAS + 1] = {"sse2", "avx2", "avx512", "neon", NULL};
const char *const mb_access_names[MB_ACCESSES + 1] = {"load",    "ntload", "store",
                                                      "ntstore", "empty",  NULL};
const char *const mb_flush_names[MB_FLUSHES + 1] = {"none", "clwb", "clflushopt", "clflush",
                                                    NULL};
const char *const mb_fence_names[MB_FENCES + 1] = {"none", "sfence", "mfence", NULL};

bool mb_isa_read(const struct mb_job *job, enum mb_isa *isa, struct tb_error *error)
{
    const json_t *given = json_object_get(job->given, "isa");
    const char *text = json_is_null(given) || !given ? "auto" : json_string_value(given);
    for (int i = MB_ISAS - 1; i >= 0; i--) {
        bool requested = text && strcmp(text, mb_isa_names[i]) == 0;
        if (requested && !mb_cpu.isa[i])
            return tb_fail(error, "isa: this processor has no %s (%s)", text, mb_cpu.model);
        if (requested || (text && strcmp(text, "auto") == 0 && mb_cpu.isa[i])) {
            *isa = (enum mb_isa)i;
            return true;
        }
    }
    return tb_fail(error, "isa: must be one of \"auto\", \"avx512\", \"avx2\", \"sse2\", \"neon\"");
}

static bool read_flush(const struct mb_job *job, enum mb_flush *flush, struct tb_error *error)
{
    int word;
    if (!tb_read_word(job->given, "flush", mb_flush_names, MB_NO_FLUSH, &word, error))
        return false;
    *flush = (enum mb_flush)word;
    return mb_cpu.flush[word] || tb_fail(error, "flush: this processor has no %s (%s)",
                                         mb_flush_names[word], mb_cpu.model);
}

/* Of mixed operations "operation" itself is read by their kind. */
static bool read_access(const struct mb_job *job, struct mb_operation *operation,
                        struct tb_error *error)
{
    static const char *const whens[] = {"write", "line", NULL};
    int access, fence, when;
    const char *word = json_string_value(json_object_get(job->given, "operation"));
    bool mixed = word && strcmp(word, "mixed") == 0;
    if (!(mixed ? tb_read_word(job->given, "store", mb_access_names, MB_STORE, &access, error)
                : tb_read_word(job->given, "operation", mb_access_names, -1, &access, error)) ||
        !read_flush(job, &operation->flush, error) ||
        !tb_read_word(job->given, "fence", mb_fence_names, MB_NO_FENCE, &fence, error) ||
        !tb_read_word(job->given, "flush_when", whens, 0, &when, error))
        return false;
    operation->access = (enum mb_access)access;
    operation->fence = (enum mb_fence)fence;
    operation->flush_each_line = operation->flush != MB_NO_FLUSH && when == 1;
    if (operation->flush == MB_NO_FLUSH || operation->access == MB_STORE)
        return true;
    return tb_fail(error, "flush: %s leaves no line in the cache to flush",
                   mb_access_names[operation->access]);
}

static bool divides(uint64_t a, uint64_t b)
{
    return a % b == 0 || b % a == 0;
}

bool mb_operation_read(const struct mb_job *job, struct mb_operation *operation,
                       struct tb_error *error)
{
    *operation = (struct mb_operation){.bytes = 0};
    if (!mb_isa_read(job, &operation->isa, error) || !read_access(job, operation, error) ||
        !mb_read_bytes(job->given, "access_bytes", TB_REQUIRED, &operation->bytes, error) ||
        !mb_read_bytes(job->given, "fence_every_bytes", operation->bytes,
                       &operation->fence_every_bytes, error))
        return false;
    if (operation->bytes > job->range_bytes / job->partitions)
        return tb_fail(error, "access_bytes: a partition of the range has only %llu bytes",
                       (unsigned long long)(job->range_bytes / job->partitions));
    if (!divides(operation->bytes, operation->fence_every_bytes))
        return tb_fail(error, "fence_every_bytes: must be a multiple or a divisor of access_bytes");
    return true;
}

const char *mb_durable(const struct mb_target *target, const struct mb_persist *persist,
                       const char **why)
{
    bool drained = persist->fence != MB_NO_FENCE;
    bool flushed = persist->non_temporal || persist->flush != MB_NO_FLUSH;
    bool mapped = target->kind == MB_DEVDAX || (target->kind == MB_FILE && target->map_sync);
    if (target->kind == MB_DRAM)
        *why = "DRAM forgets";
    else if (!mapped)
        *why = "the file is not mapped with MAP_SYNC: what is flushed may lie in the page cache, "
               "or its place in the file may be forgotten";
    else if (target->domain == MB_VOLATILE)
        *why = "nothing is known of a persistence domain of this device";
    else if (flushed && drained)
        return *why = "flushed, then fenced", "yes";
    else if (target->domain == MB_EADR)
        return *why = "only because the caches are in the persistence domain (eADR)", "eADR";
    else
        *why = flushed ? "no fence waits for the flush" : "what is stored stays in the cache";
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

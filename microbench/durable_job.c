/* The key "flush" of a job that makes bytes durable. */
#include "durable_job.h"

const char *const mb_medium_names[] = {
    [MB_MEDIUM_NONE] = "none",       [MB_MEDIUM_CLWB] = "clwb",
    [MB_MEDIUM_CLFLUSHOPT] = "clflushopt", [MB_MEDIUM_CLFLUSH] = "clflush",
    [MB_MEDIUM_NTSTORE] = "ntstore", NULL,
};

bool mb_medium_read(const struct mb_job *job, int otherwise, int *flush, struct tb_error *error)
{
    if (!tb_read_word(job->given, "flush", mb_medium_names, otherwise, flush, error))
        return false;
    if (*flush == MB_MEDIUM_NTSTORE || mb_cpu.flush[*flush])
        return true;
    tb_fail(error, "flush: this processor has no %s (%s)", mb_medium_names[*flush], mb_cpu.model);
    return false;
}

void mb_medium_persists(int flush, struct mb_persist *persist)
{
    bool non_temporal = flush == MB_MEDIUM_NTSTORE;
    *persist = (struct mb_persist){
        .non_temporal = non_temporal,
        .flush = non_temporal ? MB_NO_FLUSH : (enum mb_flush)flush,
        .fence = MB_SFENCE,
    };
}

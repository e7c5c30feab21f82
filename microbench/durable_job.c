#include "durable_job.h"

const char *const mb_media[] = {"none", "clwb", "clflushopt", "clflush", "ntstore", NULL};

bool mb_durable_fits(const struct mb_job *job, struct tb_error *error)
{
    const struct mb_durable *durable = job->params;
    if (durable->flush == MB_MEDIUM_NTSTORE)
        return !MB_NTSTORE_IS_CLEANED || mb_flush_there("flush", MB_CLWB, error);
    return mb_flush_there("flush", (enum mb_flush)durable->flush, error);
}

bool mb_durable_prepare(struct mb_job *job, struct tb_error *error)
{
    struct mb_durable *durable = job->params;
    mb_sampler_prepare(&durable->sampler, MB_SSE2, job->base);
    return true;
}

bool mb_durable_persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct mb_durable *durable = job->params;
    bool non_temporal = durable->flush == MB_MEDIUM_NTSTORE;
    *persist = (struct mb_persist){
        .non_temporal = non_temporal,
        .flush = !non_temporal             ? (enum mb_flush)durable->flush
                 : MB_NTSTORE_IS_CLEANED ? MB_CLWB
                                         : MB_NO_FLUSH,
        .fence = MB_SFENCE,
    };
    return true;
}

void mb_durable_report(const struct mb_job *job, json_t *facts)
{
    const struct mb_durable *durable = job->params;
    json_object_set_new(facts, "flush", json_string(mb_media[durable->flush]));
    mb_sampler_report(&durable->sampler, facts);
}

char *mb_random_bytes(struct mb_thread *thread, size_t bytes)
{
    char *drawn = tb_allocate(1, bytes);
    for (size_t at = 0; at < bytes; at += MB_WORD) {
        uint64_t word = tb_random_next(&thread->random);
        memcpy(drawn + at, &word, sizeof word);
    }
    return drawn;
}

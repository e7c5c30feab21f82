/* The kinds of jobs. A new one is a file in kernels/ and a line here. */
#include "kernel.h"

#include <string.h>

extern const struct mb_kind mb_throughput, mb_latency, mb_chase, mb_chain, mb_log, mb_page;

static const struct mb_kind *const kinds[] = {
    &mb_throughput, &mb_latency, &mb_chase, &mb_chain, &mb_log, &mb_page,
};

const struct mb_kind *mb_kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

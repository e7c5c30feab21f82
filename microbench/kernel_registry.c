/* All kernels. A new one is a file in kernels/ and a line here. */
#include "kernel.h"

extern const struct mb_kernel mb_throughput, mb_latency, mb_chase, mb_chain, mb_log, mb_page,
    mb_index, mb_pmdk, mb_file, mb_atomic, mb_map;

static const struct mb_kernel *const kernels[] = {
    &mb_throughput, &mb_latency, &mb_chase, &mb_chain, &mb_log, &mb_page, &mb_index, &mb_pmdk,
    &mb_file, &mb_atomic, &mb_map,
};

const struct mb_kernel *mb_kernel_named(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return kernels[i];
    return NULL;
}

/* Finding and opening a back end's module. */
#ifndef LOADGEN_MODULE_H
#define LOADGEN_MODULE_H

#include "backend.h"

/*
 * loadgen_<name>.so in one of `directories` (may be NULL), else next to this program.
 * It stays open until the process ends.
 */
const struct lg_backend *lg_module_open(const char *name, const json_t *directories,
                                        struct tb_error *error);

#endif

/* Back ends are shared objects, so that a client library is needed only where it is used. */
#include "module.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool find(char *path, size_t size, const char *directory, const char *name)
{
    int length = snprintf(path, size, "%s/loadgen_%s.so", directory, name);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

static bool find_beside_program(char *path, size_t size, const char *name)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return false;
    program[length] = '\0';
    return find(path, size, dirname(program), name);
}

static const struct lg_backend *open_module(const char *path, struct lg_error *error)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        lg_fail(error, "backend: %s", dlerror());
        return NULL;
    }
    const struct lg_backend *backend = dlsym(module, LG_BACKEND_SYMBOL);
    if (!backend || backend->abi != LG_BACKEND_ABI) {
        lg_fail(error, "backend: %s is not a module of this loadgen: build it again", path);
        return NULL;
    }
    return backend;
}

const struct lg_backend *lg_module_open(const char *name, const json_t *directories,
                                        struct lg_error *error)
{
    char path[PATH_MAX];
    size_t i;
    json_t *directory;
    json_array_foreach(directories, i, directory) {
        const char *text = json_string_value(directory);
        if (text && find(path, sizeof path, text, name))
            return open_module(path, error);
    }
    if (strchr(name, '/') == NULL && find_beside_program(path, sizeof path, name))
        return open_module(path, error);
    lg_fail(error, "backend: there is no module loadgen_%s.so beside loadgen, nor in the "
            "directories of the spec: its client library was not there when it was built", name);
    return NULL;
}

/* Back ends are shared objects, so that a client library is needed only where it is used. */
#include "backend.h"

#include <dlfcn.h>
#include <libgen.h>
#include <sys/mman.h>

/* Next to this program. */
static bool find(char *path, size_t size, const char *name)
{
    char program[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes < 0 || strchr(name, '/'))
        return false;
    program[bytes] = '\0';
    int length = snprintf(path, size, "%s/loadgen_%s.so", dirname(program), name);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

static const struct lg_backend *open_module(const char *path, struct tb_error *error)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        tb_fail(error, "backend: %s", dlerror());
        return NULL;
    }
    const struct lg_backend *backend = dlsym(module, LG_BACKEND_SYMBOL);
    if (!backend || backend->abi != LG_BACKEND_ABI) {
        tb_fail(error, "backend: %s is not a module of this loadgen version: rebuild it", path);
        return NULL;
    }
    return backend;
}

const struct lg_backend *lg_module_open(const char *name, struct tb_error *error)
{
    char path[PATH_MAX];
    if (find(path, sizeof path, name))
        return open_module(path, error);
    tb_fail(error, "backend: no module loadgen_%s.so next to loadgen: its client library was "
            "missing when loadgen was built", name);
    return NULL;
}

int lg_text_file(const char *text, char *path, size_t size, struct tb_error *error)
{
    int descriptor = memfd_create("loadgen", MFD_CLOEXEC);
    if (descriptor < 0 || !tb_write_all(descriptor, text, strlen(text))) {
        tb_fail(error, "a file in memory: %s", strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
        return -1;
    }
    snprintf(path, size, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

void lg_result_begin(struct lg_result *result)
{
    result->outcome = LG_OK;
    result->rows = result->columns = 0;
    result->affected = -1;
    result->code[0] = result->message[0] = '\0';
}

void lg_first_line(char *to, size_t size, const char *words, size_t length)
{
    size_t used = 0;

    for (; used < length && used + 1 < size && words[used] != '\n'; used++)
        to[used] = words[used];
    to[used] = '\0';
}

static size_t unescape(char *text, size_t length)
{
    static const char names[] = "bfnrtv", meant[] = "\b\f\n\r\t\v";
    size_t to = 0;

    if (memchr(text, '\\', length) == NULL)
        return length;
    for (size_t i = 0; i < length; i++) {
        const char *found = NULL;

        if (text[i] == '\\' && i + 1 < length)
            found = strchr(names, text[++i]);
        text[to++] = found && *found ? meant[found - names] : text[i];
    }
    return to;
}

bool lg_column_next(char **at, char *end, struct lg_cell *column)
{
    char *text = *at, *tab = text > end ? NULL : memchr(text, '\t', (size_t)(end - text));
    size_t length = (size_t)((tab ? tab : end) - text);

    if (text > end)
        return false;
    *at = text + length + 1;
    *column = length == 2 && memcmp(text, "\\N", 2) == 0
                  ? (struct lg_cell){NULL, 0}
                  : (struct lg_cell){text, unescape(text, length)};
    return true;
}

enum lg_state lg_result_lost(struct lg_result *result, const char *why)
{
    result->outcome = LG_LOST;
    result->rows = result->columns = 0;
    lg_first_line(result->message, sizeof result->message, why, strlen(why));
    return LG_READY;
}

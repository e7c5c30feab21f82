#include "native.h"

#define PROGRESS_FD 3
/* What a member takes in addition to its text: its name, quotes, the end of the line. */
#define MEMBER_BYTES 32

static bool opened;
static int flags; /* as inherited */

void tb_progress_open(void)
{
    flags = fcntl(PROGRESS_FD, F_GETFL);
    opened = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    if (opened) {
        fcntl(PROGRESS_FD, F_SETFL, flags | O_NONBLOCK);
        fcntl(PROGRESS_FD, F_SETFD, FD_CLOEXEC);
    }
}

void tb_progress_close(void)
{
    if (opened)
        fcntl(PROGRESS_FD, F_SETFL, flags);
    opened = false;
}

static json_t *line_of(const char *event, json_t *counts)
{
    json_t *line = json_pack("{s:s, s:I}", "event", event, "monotonic_ns",
                             (json_int_t)tb_monotonic_ns());
    if (counts)
        json_object_set(line, "counts", counts);
    return line;
}

bool tb_progress_whole(const char *event, json_t *counts)
{
    if (!opened)
        return false;
    json_t *line = line_of(event, counts);
    char *text = json_dumps(line, JSON_COMPACT);
    size_t length = strlen(text);
    text[length++] = '\n';
    fcntl(PROGRESS_FD, F_SETFL, flags);
    bool written = tb_write_all(PROGRESS_FD, text, length);
    fcntl(PROGRESS_FD, F_SETFL, flags | O_NONBLOCK);
    free(text);
    json_decref(line);
    return written;
}

void tb_progress(const char *event, json_t *counts)
{
    tb_progress_with(event, counts, NULL);
}

void tb_progress_with(const char *event, json_t *counts, const char *latency_hdr)
{
    if (!opened)
        return;
    json_t *line = line_of(event, counts);
    char text[PIPE_BUF];
    size_t length = json_dumpb(line, text, sizeof text - 1, JSON_COMPACT);
    if (latency_hdr && length + strlen(latency_hdr) + MEMBER_BYTES < sizeof text) {
        json_object_set_new(line, "latency_hdr", json_string(latency_hdr));
        length = json_dumpb(line, text, sizeof text - 1, JSON_COMPACT);
    }
    json_decref(line);
    if (length == 0 || length > sizeof text - 1)
        return;
    text[length] = '\n';
    ssize_t written = write(PROGRESS_FD, text, length + 1);
    (void)written; /* a slow or closed reader misses it */
}

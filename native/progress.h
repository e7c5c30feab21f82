/*
 * Progress: JSON lines on descriptor 3, if the parent process has opened it.
 *
 * A reader that does not read must not hold up the load: the descriptor does not block, and a
 * line that does not fit into the pipe is dropped. A line is shorter than PIPE_BUF, so it arrives
 * whole or not at all. Results are no load: their lines are waited for.
 */
#ifndef NATIVE_PROGRESS_H
#define NATIVE_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>

/* Before any other descriptor is opened. */
void tb_progress_open(void);
/*
 * Stops reporting. Descriptor 3 may be the same pipe as stdout (on a client host: ssh has no
 * third descriptor), and the result waits for its reader.
 */
void tb_progress_close(void);
/*
 * One line {"event": …, "monotonic_ns": …, "counts": {…}}; callable from any thread. `counts`
 * may be NULL and stays the caller's.
 */
void tb_progress(const char *event, json_t *counts);
/* The same with a histogram as the member "latency_hdr"; without it where the line has no room. */
void tb_progress_with(const char *event, json_t *counts, const char *latency_hdr);
/*
 * The same, of any length: it waits for its reader, so only while nothing is measured. False if
 * there is none.
 */
bool tb_progress_whole(const char *event, json_t *counts);

#endif

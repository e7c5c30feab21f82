/*
 * Calls of the Persistent Memory Development Kit (PMDK), whose libraries are loaded where they are
 * installed (Debian: libpmem1, libpmemlog1, libpmemobj1).
 *
 *   {"name": "append", "kind": "pmdk", "target": "t0", "threads": 1, "call": "log_append",
 *    "entry_bytes": 64, "sample_every": 0}
 *
 *   log_append   libpmemlog appends an entry (DaMoN'19, section 3.3: the technique Header)
 *   tx_add       libpmemobj snapshots an object at random in a transaction that changes nothing
 *                (FAST'20, Figure 14: unmodified PMDK)
 *   tx_copy_ntstore, tx_copy_clwb
 *                the same transaction with micro-buffering in place of the snapshot: the object is
 *                copied to DRAM at its begin and written back whole at its commit
 *   copy_ntstore, copy_clwb
 *                libpmem writes an object back whole that was copied to DRAM (the same figure:
 *                micro-buffering's writes without a transaction)
 *
 * Every thread has a pool of its own: a file in the target's directory as large as its part of the
 * range, removed as soon as it is open. Where the target is not mapped with MAP_SYNC, PMDK would
 * msync(2); it is set to flush instead (PMEM_IS_PMEM_FORCE), and nothing is durable.
 */
#include "kernel.h"
#include "target.h"
#include "timer_overhead.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <sys/types.h>

enum call { LOG_APPEND, TX_ADD, TX_COPY_NTSTORE, TX_COPY_CLWB, COPY_NTSTORE, COPY_CLWB };
static const char *const call_names[] = {"log_append",   "tx_add",       "tx_copy_ntstore",
                                         "tx_copy_clwb", "copy_ntstore", "copy_clwb", NULL};

/* As libpmemlog.h, libpmemobj.h and libpmem.h declare them. */
struct object_id {
    uint64_t pool, offset;
};
struct libraries {
    void *(*log_create)(const char *path, size_t bytes, mode_t mode);
    int (*log_append)(void *log, const void *from, size_t bytes);
    long long (*log_tell)(void *log);
    void (*log_rewind)(void *log);
    void (*log_close)(void *log);
    const char *(*log_error)(void);
    void *(*obj_create)(const char *path, const char *layout, size_t bytes, mode_t mode);
    struct object_id (*obj_root)(void *pool, size_t bytes);
    void *(*obj_direct)(struct object_id id);
    int (*tx_begin)(void *pool, jmp_buf env, ...);
    int (*tx_add)(const void *from, size_t bytes);
    void (*tx_commit)(void);
    int (*tx_end)(void);
    void *(*obj_copy)(void *pool, void *to, const void *from, size_t bytes, unsigned flags);
    void (*obj_close)(void *pool);
    const char *(*obj_error)(void);
    void *(*copy)(void *to, const void *from, size_t bytes, unsigned flags);
};
enum { NON_TEMPORAL = 1U << 1, TEMPORAL = 1U << 2 };
/* A pool of libpmemobj has at least 8 MiB, of which its own structures take some. */
enum { LEAST_POOL = 8 << 20, OBJECTS_SHARE = 2 };

struct calls {
    enum call call;
    size_t bytes;
    struct mb_sampler sampler;
    struct libraries of;
    const char *library;
};

struct user {
    void *pool;
    char *objects; /* of a pool or of the range */
    uint64_t count;
    char *buffer; /* in DRAM */
    uint64_t until_sample, appended;
};

struct symbol {
    const char *name;
    void **to;
};

static bool load(struct calls *calls, struct tb_error *error)
{
    struct libraries *of = &calls->of;
    const struct symbol of_log[] = {{"pmemlog_create", (void **)&of->log_create},
                                    {"pmemlog_append", (void **)&of->log_append},
                                    {"pmemlog_tell", (void **)&of->log_tell},
                                    {"pmemlog_rewind", (void **)&of->log_rewind},
                                    {"pmemlog_close", (void **)&of->log_close},
                                    {"pmemlog_errormsg", (void **)&of->log_error},
                                    {NULL, NULL}},
                        of_objects[] = {{"pmemobj_create", (void **)&of->obj_create},
                                        {"pmemobj_root", (void **)&of->obj_root},
                                        {"pmemobj_direct", (void **)&of->obj_direct},
                                        {"pmemobj_tx_begin", (void **)&of->tx_begin},
                                        {"pmemobj_tx_add_range_direct", (void **)&of->tx_add},
                                        {"pmemobj_tx_commit", (void **)&of->tx_commit},
                                        {"pmemobj_tx_end", (void **)&of->tx_end},
                                        {"pmemobj_memcpy", (void **)&of->obj_copy},
                                        {"pmemobj_close", (void **)&of->obj_close},
                                        {"pmemobj_errormsg", (void **)&of->obj_error},
                                        {NULL, NULL}},
                        of_copies[] = {{"pmem_memcpy", (void **)&of->copy}, {NULL, NULL}};
    const struct symbol *symbols = of_copies;
    calls->library = "libpmem.so.1";
    if (calls->call == LOG_APPEND) {
        symbols = of_log;
        calls->library = "libpmemlog.so.1";
    } else if (calls->call < COPY_NTSTORE) {
        symbols = of_objects;
        calls->library = "libpmemobj.so.1";
    }
    void *loaded = dlopen(calls->library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        return tb_fail(error, "call: %s", dlerror());
    for (; symbols->name; symbols++)
        if (!(*symbols->to = dlsym(loaded, symbols->name)))
            return tb_fail(error, "call: %s", dlerror());
    return true;
}

static const struct tb_param params[] = {
    TB_WORD_KEY(struct calls, "call", call, call_names, 0, -1),
    TB_INTEGER_KEY(struct calls, "entry_bytes", bytes, 1, MB_MIB, TB_REQUIRED),
    MB_SAMPLER_KEY(struct calls, sampler),
    {0},
};

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct calls *calls = job->params;
    bool pools = calls->call < COPY_NTSTORE;
    if (pools && job->target->kind != MB_FILE)
        return tb_fail(error, "call: %s needs a target in a directory", call_names[calls->call]);
    if (pools && mb_thread_bytes(job) < LEAST_POOL)
        return tb_fail(error, "range_bytes: each thread has a pool of %" PRIu64 " bytes; one needs "
                              "%d", mb_thread_bytes(job), LEAST_POOL);
    if (mb_thread_bytes(job) < calls->bytes)
        return tb_fail(error, "range_bytes: less than an entry for each thread");
    if (job->target->sync != MB_SYNC_REQUIRED)
        setenv("PMEM_IS_PMEM_FORCE", "1", 0);
    return load(calls, error);
}

static bool prepare(struct mb_job *job, struct tb_error *error)
{
    struct calls *calls = job->params;
    mb_sampler_prepare(&calls->sampler, MB_SSE2, job->base);
    return true;
}

static bool open_pool(struct mb_thread *thread, const struct calls *calls, struct user *user)
{
    const struct mb_job *job = thread->job;
    uint64_t size = mb_thread_bytes(job) / MB_KIB * MB_KIB;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/pmdk-%" PRIu32, job->target->path,
                          job->first_thread + thread->index);
    if (length >= (int)sizeof path)
        return tb_fail(&thread->error, "target: its path is too long");
    bool is_log = calls->call == LOG_APPEND;
    user->pool = is_log ? calls->of.log_create(path, size, 0600)
                        : calls->of.obj_create(path, "microbench", size, 0600);
    if (!user->pool)
        return tb_fail(&thread->error, "%s: %s", calls->library,
                       is_log ? calls->of.log_error() : calls->of.obj_error());
    unlink(path);
    if (is_log)
        return true;
    user->count = size / OBJECTS_SHARE / calls->bytes;
    struct object_id root = calls->of.obj_root(user->pool, user->count * calls->bytes);
    if (!root.offset)
        return tb_fail(&thread->error, "%s: %s", calls->library, calls->of.obj_error());
    user->objects = calls->of.obj_direct(root);
    return true;
}

static void begin(struct mb_thread *thread)
{
    const struct calls *calls = thread->job->params;
    struct user *user = thread->own = tb_allocate(1, sizeof *user);
    user->until_sample = (uint64_t)calls->sampler.every;
    user->buffer = tb_allocate(1, calls->bytes);
    memset(user->buffer, 1, calls->bytes);
    user->objects = mb_thread_base(thread->job, thread->index);
    user->count = mb_thread_bytes(thread->job) / calls->bytes;
    if (calls->call < COPY_NTSTORE)
        open_pool(thread, calls, user);
}

static bool append(struct mb_thread *thread, const struct calls *calls, struct user *user)
{
    if (calls->of.log_append(user->pool, user->buffer, calls->bytes) == 0) {
        user->appended += calls->bytes;
        return true;
    }
    if (user->appended == 0)
        return tb_fail(&thread->error, "%s: %s", calls->library, calls->of.log_error());
    calls->of.log_rewind(user->pool); /* it is full */
    user->appended = 0;
    return append(thread, calls, user);
}

static unsigned flags_of(const struct calls *calls)
{
    bool streams = calls->call == COPY_NTSTORE || calls->call == TX_COPY_NTSTORE;
    return streams ? NON_TEMPORAL : TEMPORAL;
}

/* A transaction that changes nothing of the object. */
static bool transact(struct mb_thread *thread, const struct calls *calls, struct user *user,
                     char *object)
{
    int failed = calls->of.tx_begin(user->pool, NULL, 0);
    if (!failed && calls->call == TX_ADD) {
        failed = calls->of.tx_add(object, calls->bytes);
    } else if (!failed) {
        memcpy(user->buffer, object, calls->bytes);
        calls->of.obj_copy(user->pool, object, user->buffer, calls->bytes, flags_of(calls));
    }
    if (!failed)
        calls->of.tx_commit();
    calls->of.tx_end();
    return !failed || tb_fail(&thread->error, "%s: %s", calls->library, calls->of.obj_error());
}

static bool call(struct mb_thread *thread, const struct calls *calls, struct user *user)
{
    if (calls->call == LOG_APPEND)
        return append(thread, calls, user);
    char *object = user->objects + tb_random_next(&thread->random) % user->count * calls->bytes;
    if (calls->call < COPY_NTSTORE)
        return transact(thread, calls, user, object);
    memcpy(user->buffer, object, calls->bytes);
    calls->of.copy(object, user->buffer, calls->bytes, flags_of(calls));
    return true;
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct calls *calls = thread->job->params;
    struct user *user = thread->own;
    for (uint64_t i = 0; i < operations && !*thread->error.text; i++) {
        bool timed = mb_sample_due(&calls->sampler, &user->until_sample);
        uint64_t from = timed ? mb_clock_begin() : 0;
        call(thread, calls, user);
        if (timed)
            mb_sample_end(thread, from);
    }
    thread->done.operations += operations;
    thread->done.written_bytes += calls->call == TX_ADD ? 0 : operations * calls->bytes;
    thread->done.read_bytes += calls->call == LOG_APPEND ? 0 : operations * calls->bytes;
}

/* A log must have as many bytes as were appended to it. */
static void end(struct mb_thread *thread)
{
    const struct calls *calls = thread->job->params;
    struct user *user = thread->own;
    if (user->pool && calls->call == LOG_APPEND) {
        long long found = calls->of.log_tell(user->pool);
        if (found != (long long)user->appended && !*thread->error.text)
            tb_fail(&thread->error, "%s: the log has %lld bytes, %" PRIu64 " were appended",
                    calls->library, found, user->appended);
        calls->of.log_close(user->pool);
    } else if (user->pool)
        calls->of.obj_close(user->pool);
    free(user->buffer);
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct calls *calls = job->params;
    json_object_set_new(facts, "library", json_string(calls->library));
    mb_sampler_report(&calls->sampler, facts);
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct calls *calls = job->params;
    *persist = (struct mb_persist){.non_temporal = flags_of(calls) == NON_TEMPORAL,
                                   .flush = MB_CLWB, /* of what libpmem writes through caches */
                                   .fence = MB_SFENCE};
    return true;
}

const struct mb_kernel mb_pmdk = {
    .name = "pmdk",
    .params = params,
    .params_bytes = sizeof(struct calls),
    .has_latency = true,
    .validate = validate,
    .prepare = prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .report = report,
    .persists = persists,
};

/*
 * Loading in parallel.
 *
 * The work is cut into packages: a table and a few warehouses, one bulk load each, so
 * that memory does not grow with the warehouses. A thread stays with its table as long
 * as that has packages left, then goes to the table with the fewest threads and the most
 * work. So tables are filled by one stream each while there are tables enough, in the
 * order of their keys: rows lie as they would after a serial load, and streams do not
 * wait for each other at the end of one table.
 *
 * The first failure stops all threads: none begins another buffer.
 */
#include "load.h"
#include "params.h"

#include "clock.h"
#include "progress.h"
#include "../spec.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* One buffer a thread. A bigger one falls out of the processor's cache. */
enum { BUFFER_BYTES = 256 * 1024 };
#define PROGRESS_INTERVAL_NS UINT64_C(500000000)

struct table_work {
    int32_t next;    /* the first warehouse that nobody has taken yet */
    int32_t last;    /* the last warehouse */
    int threads;     /* now at this table */
    int64_t stored;  /* rows */
};

struct load {
    struct lg_population population;
    const struct lg_backend *backend;
    void *client;
    pthread_mutex_t lock; /* of all that follows */
    struct table_work work[TPCC_TABLES];
    uint64_t told_ns; /* when progress was last told */
    struct tb_error error;
    atomic_bool failed;
};

struct loader {
    struct load *load;
    pthread_t thread;
    void *connection;
    char *buffer;
    int table; /* -1 before the first package */
};

struct package {
    int table;
    int32_t first, last; /* warehouses */
};

/* The first error stands; the others follow from it. */
static void load_fail(struct load *load, const struct tb_error *error)
{
    pthread_mutex_lock(&load->lock);
    if (!atomic_load(&load->failed)) {
        load->error = *error;
        atomic_store(&load->failed, true);
    }
    pthread_mutex_unlock(&load->lock);
}

static int64_t bytes_left(const struct load *load, int table)
{
    const struct table_work *work = &load->work[table];

    return (work->last - work->next + 1) * lg_tpcc_tables[table].bytes;
}

/* The table with the fewest threads, of those the one with the most work; -1 at the end. */
static int next_table(const struct load *load)
{
    int best = -1;

    for (int i = 0; i < TPCC_TABLES; i++) {
        if (load->work[i].next > load->work[i].last)
            continue;
        if (best < 0 || load->work[i].threads < load->work[best].threads ||
            (load->work[i].threads == load->work[best].threads &&
             bytes_left(load, i) > bytes_left(load, best)))
            best = i;
    }
    return best;
}

static bool take_package(struct loader *loader, struct package *package)
{
    struct load *load = loader->load;
    bool taken = false;

    pthread_mutex_lock(&load->lock);
    if (loader->table >= 0 && load->work[loader->table].next > load->work[loader->table].last) {
        load->work[loader->table].threads--;
        loader->table = -1;
    }
    if (loader->table < 0) {
        loader->table = next_table(load);
        if (loader->table >= 0)
            load->work[loader->table].threads++;
    }
    if (loader->table >= 0 && !atomic_load(&load->failed)) {
        struct table_work *work = &load->work[loader->table];
        int32_t warehouses = lg_tpcc_tables[loader->table].package;

        package->table = loader->table;
        package->first = work->next;
        package->last = warehouses < work->last - work->next + 1 ? work->next + warehouses - 1
                                                                 : work->last;
        work->next = package->last + 1;
        taken = true;
    }
    pthread_mutex_unlock(&load->lock);
    return taken;
}

static json_t *stored_rows(const struct load *load)
{
    json_t *rows = json_object();

    for (int i = 0; i < TPCC_TABLES; i++)
        json_object_set_new(rows, lg_tpcc_tables[i].name, json_integer(load->work[i].stored));
    return rows;
}

static void count_stored(struct load *load, int table, int64_t rows)
{
    uint64_t now_ns = tb_monotonic_ns();

    pthread_mutex_lock(&load->lock);
    load->work[table].stored += rows;
    if (now_ns - load->told_ns >= PROGRESS_INTERVAL_NS) {
        json_t *counts = stored_rows(load);

        load->told_ns = now_ns;
        tb_progress("loading", counts);
        json_decref(counts);
    }
    pthread_mutex_unlock(&load->lock);
}

struct stream {
    struct load *load;
    void *connection;
    struct tb_error error; /* empty while all is well */
};

static bool send_rows(void *context, const char *rows, size_t length)
{
    struct stream *stream = context;
    struct load *load = stream->load;

    return !atomic_load(&load->failed) &&
           load->backend->bulk_write(stream->connection, rows, length, &stream->error);
}

static bool load_package(struct loader *loader, const struct package *package,
                         struct tb_error *error)
{
    struct load *load = loader->load;
    const struct lg_tpcc_table *table = &lg_tpcc_tables[package->table];
    struct stream stream = {.load = load, .connection = loader->connection};
    struct lg_rows rows = {.buffer = loader->buffer, .capacity = BUFFER_BYTES,
                           .sink = send_rows, .context = &stream};

    if (!load->backend->bulk_begin(loader->connection, table->name, table->columns, error))
        return false;
    table->write(&load->population, &rows, package->first, package->last);
    if (!lg_rows_flush(&rows)) {
        *error = stream.error;
        return false; /* `disconnect` ends what was begun */
    }

    int64_t stored = load->backend->bulk_end(loader->connection, error);

    if (stored < 0)
        return false;
    if (stored != rows.count) {
        tb_fail(error, "the server stored %lld of %lld rows", (long long)stored,
                (long long)rows.count);
        return false;
    }
    count_stored(load, package->table, stored);
    return true;
}

static void *run_loader(void *argument)
{
    struct loader *loader = argument;
    struct load *load = loader->load;
    struct tb_error error = {""};
    struct package package;

    loader->connection = load->backend->connect(load->client, NULL, 0, &error);
    if (!loader->connection) {
        load_fail(load, &error);
        return NULL;
    }
    while (take_package(loader, &package)) {
        if (!load_package(loader, &package, &error)) {
            struct tb_error told;

            tb_fail(&told, "load table %s, warehouses %d to %d: %s",
                    lg_tpcc_tables[package.table].name, package.first, package.last, error.text);
            load_fail(load, &told);
            break;
        }
    }
    load->backend->disconnect(loader->connection);
    return NULL;
}

static void run_loaders(struct load *load, uint32_t threads)
{
    struct loader *loaders = tb_allocate(threads, sizeof *loaders);
    uint32_t started = 0;

    for (; started < threads; started++) {
        struct loader *loader = &loaders[started];

        loader->load = load;
        loader->table = -1;
        loader->buffer = tb_allocate(1, BUFFER_BYTES);
        if (pthread_create(&loader->thread, NULL, run_loader, loader) != 0) {
            struct tb_error error;

            tb_fail(&error, "load: thread %u of %u could not be started", started + 1, threads);
            load_fail(load, &error);
            free(loader->buffer);
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(loaders[i].thread, NULL);
        free(loaders[i].buffer);
    }
    free(loaders);
}

bool lg_tpcc_load(const struct lg_job *job, json_t *result, struct tb_error *error)
{
    struct lg_tpcc_params params;

    if (!lg_tpcc_params_read(&params, job->spec->params, error))
        return false;

    struct load *load = tb_allocate(1, sizeof *load);

    lg_population_init(&load->population, params.data_seed);
    load->backend = job->backend;
    load->client = job->client;
    pthread_mutex_init(&load->lock, NULL);
    for (int i = 0; i < TPCC_TABLES; i++)
        load->work[i] = (struct table_work){
            .next = 1, .last = lg_tpcc_tables[i].once ? 1 : params.warehouses};
    run_loaders(load, job->spec->threads);

    bool loaded = !atomic_load(&load->failed);

    if (loaded) {
        json_object_set_new(result, "rows", stored_rows(load));
        json_object_set_new(result, "notes",
                            json_pack("{s:i}", "c_load", (int)load->population.c_load));
    } else {
        *error = load->error;
    }
    pthread_mutex_destroy(&load->lock);
    free(load);
    return loaded;
}

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
#include "population.h"
#include "../thread_pool.h"

/* One buffer a thread. A bigger one falls out of the processor's cache. */
enum { BUFFER_BYTES = 256 * 1024 };

struct load {
    struct lg_population population;
    /* With the pool's lock. */
    struct table_work {
        int32_t next; /* the first warehouse that no thread has taken yet */
        int32_t last; /* the last warehouse */
        int threads;  /* now at this table */
    } work[TPCC_TABLES];
};

/* A thread's own. */
struct loader {
    int table; /* -1 before the first package */
    char buffer[BUFFER_BYTES];
};

struct package {
    int table;
    int32_t first, last; /* warehouses */
};

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

static bool take_package(struct lg_thread_pool *pool, struct loader *loader,
                         struct package *package)
{
    struct load *load = pool->context;
    bool taken = false;

    pthread_mutex_lock(&pool->lock);
    if (loader->table >= 0 && load->work[loader->table].next > load->work[loader->table].last) {
        load->work[loader->table].threads--;
        loader->table = -1;
    }
    if (loader->table < 0) {
        loader->table = next_table(load);
        if (loader->table >= 0)
            load->work[loader->table].threads++;
    }
    if (loader->table >= 0) {
        struct table_work *work = &load->work[loader->table];
        int32_t warehouses = lg_tpcc_tables[loader->table].package;

        package->table = loader->table;
        package->first = work->next;
        package->last = warehouses < work->last - work->next + 1 ? work->next + warehouses - 1
                                                                 : work->last;
        work->next = package->last + 1;
        taken = true;
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

struct stream {
    struct lg_pool_thread *thread;
    struct tb_error *error;
};

static bool send_rows(void *context, const char *rows, size_t length)
{
    struct stream *stream = context;
    struct lg_thread_pool *pool = stream->thread->pool;

    return !atomic_load(&pool->failed) &&
           pool->job->backend->bulk_write(stream->thread->session, rows, length,
                                          stream->error);
}

static bool write_package(struct lg_pool_thread *thread, const struct package *package,
                          struct tb_error *error)
{
    const struct load *load = thread->pool->context;
    const struct lg_tpcc_table *table = &lg_tpcc_tables[package->table];
    struct loader *loader = thread->own;
    struct stream stream = {thread, error};
    struct lg_rows rows = {.buffer = loader->buffer, .capacity = BUFFER_BYTES,
                           .sink = send_rows, .context = &stream};

    if (!thread->pool->job->backend->bulk_begin(thread->session, table->name, table->columns,
                                                error))
        return false;
    lg_tpcc_write(&load->population, table, &rows, package->first, package->last);
    return lg_rows_flush(&rows) && /* else `disconnect` ends what was begun */
           lg_pool_end_bulk(thread, package->table, rows.count, error);
}

/* The number is not used: a thread stays with its table. */
static bool load_package(struct lg_pool_thread *thread, int64_t number, struct tb_error *error)
{
    struct package package;

    if (!thread->own) {
        struct loader *loader = thread->own = tb_allocate(1, sizeof *loader);

        loader->table = -1;
    }
    if (!take_package(thread->pool, thread->own, &package))
        return false;
    if (write_package(thread, &package, error))
        return true;
    if (error->text[0]) /* else another one has failed */
        tb_fail_within(error, "load table %s, warehouses %d to %d: ",
                       lg_tpcc_tables[package.table].name, package.first, package.last);
    return false;
}

bool lg_tpcc_load(const struct lg_job *job, json_t *result, struct tb_error *error)
{
    struct lg_tpcc_params params;
    struct load load = {0};
    struct lg_thread_pool pool = {.job = job, .packages = INT64_MAX, .work = load_package,
                                  .context = &load, .event = "loading"};

    if (!lg_tpcc_params_read(&params, job->spec->params, error))
        return false;
    lg_population_init(&load.population, params.data_seed);
    for (int i = 0; i < TPCC_TABLES; i++) {
        pool.names[i] = lg_tpcc_tables[i].name;
        load.work[i] = (struct table_work){
            .next = 1, .last = lg_tpcc_tables[i].once ? 1 : params.warehouses};
    }
    if (!lg_pool_run(&pool, error))
        return false;
    json_object_set_new(result, "rows", lg_pool_counts(&pool));
    json_object_set_new(result, "notes",
                        json_pack("{s:i}", "c_load", (int)load.population.c_load));
    return true;
}

/*
 * Loading: records insertstart … insertstart + insertcount - 1 in the order of their
 * numbers, as the official client inserts them, in packages of some megabytes that threads
 * take one by one. Memory does not grow with the number of records.
 */
#include "ycsb.h"

#include "../thread_pool.h"

enum { PACKAGE_BYTES = 32 << 20, BUFFER_BYTES = 256 << 10 };

struct load {
    struct lg_ycsb_params params;
    struct lg_ycsb_values values;
    int64_t package_records;
    struct tb_text columns;
};

/* One row of text: the key and its fields. */
static size_t write_row(const struct load *load, int64_t number, char *row)
{
    size_t length = lg_ycsb_key(&load->params, number, row);
    struct lg_ycsb_stamp stamp =
        lg_ycsb_stamp(lg_ycsb_key_hash(&load->values, row, length), YCSB_LOADED);

    for (int field = 0; field < load->params.fieldcount; field++) {
        row[length++] = '\t';
        length += lg_ycsb_value(&load->values, &stamp, field, row + length);
    }
    row[length++] = '\n';
    return length;
}

static size_t row_bytes(const struct lg_ycsb_params *params)
{
    return YCSB_KEY_BYTES + lg_ycsb_record_bytes(params) + YCSB_VALUE_SLACK;
}

static bool write_rows(struct lg_pool_thread *thread, int64_t first, int64_t end, struct tb_error *error)
{
    const struct load *load = thread->pool->context;
    const struct lg_backend *backend = thread->pool->job->backend;
    size_t length = 0;
    char *buffer = thread->own;

    for (int64_t number = first; number < end; number++) {
        length += write_row(load, number, buffer + length);
        if (length < BUFFER_BYTES && number + 1 < end)
            continue;
        if (atomic_load(&thread->pool->failed) ||
            !backend->bulk_write(thread->session, buffer, length, error))
            return false;
        length = 0;
    }
    return true;
}

static bool put_records(struct lg_pool_thread *thread, int64_t first, int64_t end, struct tb_error *error)
{
    const struct load *load = thread->pool->context;
    const struct lg_backend *backend = thread->pool->job->backend;
    char key[YCSB_KEY_BYTES];

    for (int64_t number = first; number < end; number++) {
        size_t key_length = lg_ycsb_key(&load->params, number, key);
        struct lg_ycsb_stamp stamp =
            lg_ycsb_stamp(lg_ycsb_key_hash(&load->values, key, key_length), YCSB_LOADED);
        size_t length = lg_ycsb_record(&load->values, &stamp, 0,
                                       (int)load->params.fieldcount - 1, thread->own);

        if (atomic_load_explicit(&thread->pool->failed, memory_order_relaxed) ||
            !backend->bulk_put(thread->session, key, key_length, thread->own, length, error))
            return false;
    }
    return true;
}

static bool load_package(struct lg_pool_thread *thread, int64_t package, struct tb_error *error)
{
    const struct load *load = thread->pool->context;
    const struct lg_backend *backend = thread->pool->job->backend;
    int64_t first = load->params.insertstart + package * load->package_records;
    int64_t end = load->params.insertstart + load->params.insertcount;

    if (!thread->own)
        thread->own = tb_allocate(BUFFER_BYTES + row_bytes(&load->params), 1);
    end = end < first + load->package_records ? end : first + load->package_records;
    if (backend->bulk_begin(thread->session, YCSB_TABLE, load->columns.bytes, error) &&
        (backend->key_value ? put_records : write_rows)(thread, first, end, error) &&
        lg_pool_end_bulk(thread, 0, end - first, error))
        return true;
    if (error->text[0]) /* else another one has failed */
        tb_fail_within(error, "load records %lld to %lld: ", (long long)first, (long long)end - 1);
    return false;
}

bool lg_ycsb_load(const struct lg_job *job, json_t *result, struct tb_error *error)
{
    struct load load = {0};
    struct lg_thread_pool pool = {.job = job, .work = load_package, .context = &load,
                           .event = "loading", .names = {YCSB_TABLE}};

    if (!lg_ycsb_params_read(&load.params, job->spec->params, error))
        return false;
    lg_ycsb_values_open(&load.values, &load.params);
    load.package_records = PACKAGE_BYTES / (int64_t)row_bytes(&load.params) + 1;
    tb_text_printf(&load.columns, YCSB_KEY_COLUMN);
    for (int i = 0; i < load.params.fieldcount; i++)
        tb_text_printf(&load.columns, ", field%d", i);
    tb_text_add(&load.columns, "", 1);
    pool.packages = (load.params.insertcount + load.package_records - 1) / load.package_records;

    bool loaded = lg_pool_run(&pool, error);

    if (loaded)
        json_object_set_new(result, "rows", lg_pool_counts(&pool));
    free(load.columns.bytes);
    return loaded;
}

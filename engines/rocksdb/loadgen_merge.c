/*
 * The merge operator: an operand is a change, a record with only the changed fields (record.h);
 * merging replaces the record's values by theirs.
 */
#include "loadgen_library.h"
#include "record.h"
#include "workload.h"

static char *refuse(struct tb_text *text, unsigned char *success)
{
    free(text->bytes);
    *success = false;
    return NULL;
}

static char *give(struct tb_text *text, unsigned char *success, size_t *length)
{
    if (!text->bytes)
        tb_text_add(text, "", 0);
    *success = true;
    *length = text->length;
    return text->bytes ? text->bytes : calloc(1, 1);
}

static char *merge(const char *record, size_t record_length, const char *const *changes,
                   const size_t *change_lengths, int count, unsigned char *success,
                   size_t *length)
{
    struct tb_text now = {0}, next = {0};
    tb_text_add(&now, record, record_length);
    for (int i = 0; i < count; i++) {
        next.length = 0;
        if (!lg_record_change(&next, now.bytes, now.length, changes[i], change_lengths[i])) {
            free(next.bytes);
            return refuse(&now, success);
        }
        struct tb_text before = now;
        now = next;
        next = before;
    }
    free(next.bytes);
    return give(&now, success, length);
}

/* Without a record, the changes are the whole record. */
static char *full_merge(void *state, const char *key, size_t key_length, const char *record,
                        size_t record_length, const char *const *changes,
                        const size_t *change_lengths, int count, unsigned char *success,
                        size_t *length)
{
    return merge(record ? record : "", record ? record_length : 0, changes, change_lengths, count,
                 success, length);
}

static char *partial_merge(void *state, const char *key, size_t key_length,
                           const char *const *changes, const size_t *change_lengths, int count,
                           unsigned char *success, size_t *length)
{
    return merge("", 0, changes, change_lengths, count, success, length);
}

static void destroy(void *state)
{
}

static void delete_value(void *state, const char *value, size_t length)
{
    free((void *)value);
}

static const char *name(void *state)
{
    return "tierbench.fields";
}

rocksdb_mergeoperator_t *rocksdb_record_merge(const struct rocksdb_library *library)
{
    return library->mergeoperator_create(NULL, destroy, full_merge, partial_merge, delete_value,
                                         name);
}

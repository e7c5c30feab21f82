/*
 * A RocksDB library, opened with dlopen: the part of its C interface that is used, and a database
 * opened with it. Its types are opaque, as in <rocksdb/c.h>.
 */
#pragma once

#include "backend.h"

typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_cache_t rocksdb_cache_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_writeoptions_t rocksdb_writeoptions_t;
typedef struct rocksdb_flushoptions_t rocksdb_flushoptions_t;
typedef struct rocksdb_iterator_t rocksdb_iterator_t;
typedef struct rocksdb_mergeoperator_t rocksdb_mergeoperator_t;
typedef struct rocksdb_pinnableslice_t rocksdb_pinnableslice_t;
typedef struct rocksdb_wait_for_compact_options_t rocksdb_wait_for_compact_options_t;
typedef struct rocksdb_writebatch_t rocksdb_writebatch_t;

typedef char *rocksdb_full_merge(void *state, const char *key, size_t key_length,
                                 const char *record, size_t record_length,
                                 const char *const *changes, const size_t *change_lengths,
                                 int count, unsigned char *success, size_t *length);
typedef char *rocksdb_partial_merge(void *state, const char *key, size_t key_length,
                                    const char *const *changes, const size_t *change_lengths,
                                    int count, unsigned char *success, size_t *length);

/* X(result, name without rocksdb_, arguments). */
#define ROCKSDB_FUNCTIONS(X) \
    X(void, close, (rocksdb_t *)) \
    X(rocksdb_iterator_t *, create_iterator, (rocksdb_t *, const rocksdb_readoptions_t *)) \
    X(void, flush, (rocksdb_t *, const rocksdb_flushoptions_t *, char **)) \
    X(rocksdb_flushoptions_t *, flushoptions_create, (void)) \
    X(void, flushoptions_destroy, (rocksdb_flushoptions_t *)) \
    X(void, free, (void *)) \
    X(void, get_options_from_string, (const rocksdb_options_t *, const char *, \
                                      rocksdb_options_t *, char **)) \
    X(rocksdb_pinnableslice_t *, get_pinned, (rocksdb_t *, const rocksdb_readoptions_t *, \
                                              const char *, size_t, char **)) \
    X(void, iter_destroy, (rocksdb_iterator_t *)) \
    X(void, iter_get_error, (const rocksdb_iterator_t *, char **)) \
    X(const char *, iter_key, (const rocksdb_iterator_t *, size_t *)) \
    X(void, iter_next, (rocksdb_iterator_t *)) \
    X(void, iter_seek, (rocksdb_iterator_t *, const char *, size_t)) \
    X(unsigned char, iter_valid, (const rocksdb_iterator_t *)) \
    X(const char *, iter_value, (const rocksdb_iterator_t *, size_t *)) \
    X(void, merge, (rocksdb_t *, const rocksdb_writeoptions_t *, const char *, size_t, \
                    const char *, size_t, char **)) \
    X(rocksdb_mergeoperator_t *, mergeoperator_create, \
      (void *, void (*)(void *), rocksdb_full_merge *, rocksdb_partial_merge *, \
       void (*)(void *, const char *, size_t), const char *(*)(void *))) \
    X(rocksdb_t *, open, (const rocksdb_options_t *, const char *, char **)) \
    X(rocksdb_options_t *, options_create, (void)) \
    X(void, options_destroy, (rocksdb_options_t *)) \
    X(void, options_enable_statistics, (rocksdb_options_t *)) \
    X(void, options_set_create_if_missing, (rocksdb_options_t *, unsigned char)) \
    X(void, options_set_merge_operator, (rocksdb_options_t *, rocksdb_mergeoperator_t *)) \
    X(void, options_set_wal_dir, (rocksdb_options_t *, const char *)) \
    X(char *, options_statistics_get_string, (rocksdb_options_t *)) \
    X(void, pinnableslice_destroy, (rocksdb_pinnableslice_t *)) \
    X(const char *, pinnableslice_value, (const rocksdb_pinnableslice_t *, size_t *)) \
    X(int, property_int, (rocksdb_t *, const char *, uint64_t *)) \
    X(char *, property_value, (rocksdb_t *, const char *)) \
    X(void, put, (rocksdb_t *, const rocksdb_writeoptions_t *, const char *, size_t, \
                  const char *, size_t, char **)) \
    X(rocksdb_readoptions_t *, readoptions_create, (void)) \
    X(void, readoptions_destroy, (rocksdb_readoptions_t *)) \
    X(void, readoptions_set_total_order_seek, (rocksdb_readoptions_t *, unsigned char)) \
    X(void, write, (rocksdb_t *, const rocksdb_writeoptions_t *, rocksdb_writebatch_t *, \
                    char **)) \
    X(void, writebatch_clear, (rocksdb_writebatch_t *)) \
    X(rocksdb_writebatch_t *, writebatch_create, (void)) \
    X(void, writebatch_destroy, (rocksdb_writebatch_t *)) \
    X(void, writebatch_put, (rocksdb_writebatch_t *, const char *, size_t, const char *, size_t)) \
    X(rocksdb_writeoptions_t *, writeoptions_create, (void)) \
    X(void, writeoptions_destroy, (rocksdb_writeoptions_t *)) \
    X(void, writeoptions_disable_WAL, (rocksdb_writeoptions_t *, int)) \
    X(void, writeoptions_set_sync, (rocksdb_writeoptions_t *, unsigned char))

/* The same, of newer releases: NULL if this one does not have it. */
#define ROCKSDB_NEWER_FUNCTIONS(X) \
    X(rocksdb_cache_t *, cache_create_lru, (size_t)) \
    X(void, cache_destroy, (rocksdb_cache_t *)) \
    X(void, options_set_row_cache, (rocksdb_options_t *, rocksdb_cache_t *)) \
    X(void, options_set_statistics_level, (rocksdb_options_t *, int)) \
    X(void, wait_for_compact, (rocksdb_t *, rocksdb_wait_for_compact_options_t *, char **)) \
    X(rocksdb_wait_for_compact_options_t *, wait_for_compact_options_create, (void)) \
    X(void, wait_for_compact_options_destroy, (rocksdb_wait_for_compact_options_t *))

struct rocksdb_library {
    void *handle;
#define ROCKSDB_MEMBER(returned, name, taken) returned (*name) taken;
    ROCKSDB_FUNCTIONS(ROCKSDB_MEMBER)
    ROCKSDB_NEWER_FUNCTIONS(ROCKSDB_MEMBER)
#undef ROCKSDB_MEMBER
};

struct rocksdb_stripe {
    _Alignas(64) pthread_mutex_t lock;
};

/* An open database of a spec's `connection`. */
struct lg_client {
    struct rocksdb_library call;
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *writes;
    rocksdb_readoptions_t *reads;
    bool counts;  /* statistics are on */
    bool settled; /* it was only loaded: report its levels */
    struct rocksdb_stripe *stripes; /* locks of records that are modified */
};

bool rocksdb_library_open(struct rocksdb_library *library, const char *path,
                          struct tb_error *error);
/* RocksDB's own threads run until the database is closed. */
bool rocksdb_database_open(struct lg_client *client, const json_t *connection,
                           struct tb_error *error);
void rocksdb_database_close(struct lg_client *client);

/* Moves RocksDB's message, if there is one, to `error`; returns whether there was one. */
bool rocksdb_said(const struct rocksdb_library *library, char *words, const char *action,
                  struct tb_error *error);

rocksdb_mergeoperator_t *rocksdb_record_merge(const struct rocksdb_library *library);

json_t *rocksdb_counters(struct lg_client *client, struct tb_error *error);
/* False with the error if a background flush or compaction has failed. */
bool rocksdb_background_is_well(struct lg_client *client, struct tb_error *error);
bool rocksdb_settle(struct lg_client *client, struct tb_error *error);

/*
 * What a back end is: a handful of functions over an engine's client.
 *
 * A back end is a module of its own, loadgen_<name>.so, opened with dlopen when a spec
 * names it, so that no user needs every engine's client library. Its source is
 * engines/<engine>/loadgen.c. It knows no workload: it prepares the statements that the
 * spec brings (read by the harness from the engine's sql/ folder) and executes them with
 * the values a workload offers.
 *
 * Life of a connection, all of it in one thread:
 *
 *   connect → (submit → advance …)* → disconnect
 *
 * `submit` and `advance` never block: they say what the connection waits for, and the
 * event loop calls `advance` when its descriptor is ready. A back end without
 * descriptors (an embedded engine) executes in `submit` and returns LG_READY; it is called
 * from many threads at once, by each on a connection of its own, all over one client.
 *
 * A key-value engine takes verbs for statements: `get :key`, `put :key :record`,
 * `modify :key :change`, `merge :key :change`, `scan :key :length`. Its rows are a key and
 * a record; record.h says what records and changes are made of.
 */
#pragma once

#include "native.h"

#define LG_BACKEND_ABI 4
/* The symbol that a module exports: `const struct lg_backend loadgen_backend`. */
#define LG_BACKEND_SYMBOL "loadgen_backend"

/*
 * For client libraries that take a certificate by its path alone: a file in memory, without a
 * name, that has `text`; its path, for this process, goes to `path`. The descriptor, which keeps
 * it, or -1 with the error. Nothing is left of it, however the process ends.
 */
int lg_text_file(const char *text, char *path, size_t size, struct tb_error *error);

enum lg_kind {
    LG_INT,       /* integer */
    LG_CENTS,     /* integer: hundredths of a decimal number, 12.34 as 1234 */
    LG_TEXT,      /* text and length; of a record: bytes */
    LG_INT_ARRAY, /* integers and count; an engine without arrays takes the text [1,2,3] */
};

struct lg_value {
    enum lg_kind kind;
    bool null;
    int64_t integer;
    const char *text;
    size_t length;
    const int32_t *integers;
    size_t count;
};

/* A key and 64 fields, and some more. */
#define LG_MAX_PARAMETERS 72
#define LG_MAX_COLUMNS 72

/*
 * One prepared statement. `sql` has :name where a value goes; `parameters[i]` is the
 * index of the i-th such name in the values that the workload offers for `operation`,
 * its kind next to it. A name may stand more than once. Where an engine has no arrays, its
 * back end may take :a:b, arrays with nothing between, as one text of their rows.
 */
struct lg_statement {
    const char *name;
    const char *sql;
    size_t parameter_count;
    struct lg_parameter {
        size_t begin, end; /* of ":name" in sql */
        int value;         /* index into the workload's values */
        enum lg_kind kind;
    } parameters[LG_MAX_PARAMETERS];
};

enum lg_state {
    LG_WANT_READ,
    LG_WANT_WRITE,      /* readable counts too: libpq wants both */
    LG_READY,           /* the result is there */
};

enum lg_outcome {
    LG_OK,      /* without rows but with a code: it undid its own work, as it was meant to */
    LG_RETRY,   /* serialization failure, deadlock, lock timeout: roll back, do it again */
    LG_REFUSED, /* the statement failed otherwise; the connection stays usable */
    LG_LOST,    /* the connection is gone */
};

/* One column of a row, as text (of a record: bytes). NULL as text == NULL. */
struct lg_cell {
    const char *text;
    size_t length;
};

/*
 * Who takes the rows of a statement: `row` is called for each, in their order, before
 * LG_READY. The cells are valid only until it returns.
 */
struct lg_reader {
    void (*row)(void *context, const struct lg_cell *cells, size_t columns);
    void *context;
};

/*
 * Result of one statement. Every row was received; the first one is kept (a key-value
 * engine needs not keep it). `code`: SQLSTATE or the engine's error number as text.
 */
struct lg_result {
    enum lg_outcome outcome;
    size_t rows;
    /* Without rows: what was stored, or found to be changed; -1 where that is not known. */
    int64_t affected;
    size_t columns;
    struct lg_cell first[LG_MAX_COLUMNS];
    char code[16];
    char message[512];
};

/* For back ends: begins a result, LG_OK without rows. */
void lg_result_begin(struct lg_result *result);
/* For back ends: the first line of `words`, as far as it fits. */
void lg_first_line(char *to, size_t size, const char *words, size_t length);
/*
 * For back ends: the next column of a loaded row, its escapes taken away in place. NULL has no
 * text; false after the last one.
 */
bool lg_column_next(char **at, char *end, struct lg_cell *column);
/* For back ends: the connection is gone; returns LG_READY. */
enum lg_state lg_result_lost(struct lg_result *result, const char *why);

/* A back end's own: of the process, and of a connection. */
struct lg_client;
struct lg_session;

struct lg_backend {
    int abi;
    bool key_value; /* statements are verbs, rows a key and a record, bulk loads `bulk_put` */
    /* One for the process; `connection` is the spec's. Returns NULL with the error. */
    struct lg_client *(*open)(const json_t *connection, struct tb_error *error);
    void (*close)(struct lg_client *client);
    /*
     * Connects and prepares; may block (it is done before anything is measured). `result` is the
     * session's last one: after LG_READY, valid until the next submit.
     */
    struct lg_session *(*connect)(struct lg_client *client, const struct lg_statement *statements,
                                  size_t count, struct lg_result *result, struct tb_error *error);
    void (*disconnect)(struct lg_session *session);
    /* The descriptor to wait on, -1 where the engine is embedded; NULL: always. */
    int (*descriptor)(struct lg_session *session);
    /* `reader` takes the rows; NULL where no one reads them. Both stay until LG_READY. */
    enum lg_state (*submit)(struct lg_session *session, const struct lg_statement *statement,
                            const struct lg_value *values, const struct lg_reader *reader);
    enum lg_state (*advance)(struct lg_session *session); /* NULL for an embedded engine */
    /*
     * Has the server count now what the connection's session has done, where it counts that late
     * otherwise. As `submit`, without rows, and between two statements; NULL: counted at once.
     */
    enum lg_state (*publish)(struct lg_session *session);
    /*
     * Bulk load of one table, blocking, one at a time on a connection. Rows come as text:
     * columns apart by a tab, rows ended by a newline, NULL as \N, backslash escapes —
     * what COPY and LOAD DATA both take as it is. `columns`: "a, b, c".
     * `bulk_begin` … `bulk_write`* … `bulk_end` returns the rows stored, -1 with the error.
     */
    bool (*bulk_begin)(struct lg_session *session, const char *table, const char *columns,
                       struct tb_error *error);
    bool (*bulk_write)(struct lg_session *session, const char *rows, size_t length,
                       struct tb_error *error);
    int64_t (*bulk_end)(struct lg_session *session, struct tb_error *error);
    /* In place of `bulk_write` for a key-value engine: one record, between begin and end. */
    bool (*bulk_put)(struct lg_session *session, const char *key, size_t key_length,
                     const char *record, size_t record_length, struct tb_error *error);
    /*
     * After a load, its connections gone: everything is durable and at rest; false with
     * the error. NULL where there is nothing to do.
     */
    bool (*settle)(struct lg_client *client, struct tb_error *error);
    /*
     * Of an engine inside this process, at both ends of the measured window: an object,
     * numbers by their name with the unit (…_bytes, …_count, …_ns), and texts. Also once
     * after a load. Called by the main thread while others execute; NULL with the error. NULL
     * where there are none.
     */
    json_t *(*counters)(struct lg_client *client, struct tb_error *error);
};

/* Opens loadgen_<name>.so next to this program, until the process ends; NULL with the error. */
const struct lg_backend *lg_module_open(const char *name, struct tb_error *error);

/* LOAD DATA LOCAL from rows that arrive in pieces. */
#include "loadgen_innodb.h"

#include <errmsg.h>

enum {
    STACK_BYTES = 256 * 1024,
    /* Errors of a server that accepts no files from clients: old releases, MySQL, MariaDB. */
    LOCAL_DISABLED_OLD = 1148,
    LOCAL_DISABLED_MYSQL = 3948,
    LOCAL_DISABLED_MARIADB = 4166,
};

/*
 * Without unique_checks, which cost nothing while there is no secondary index, MariaDB would lock
 * an empty table to fill it, and two connections that start together would deadlock (1213).
 *
 * With them no deadlock is possible, so none is retried: connections insert different keys. An
 * insertion waits only for a lock on its gap or its key. Such locks come from searches, duplicates,
 * foreign keys (not checked here) and rows that a rollback removes, and a rollback ends the load.
 */
static const char LOADING[] = "SET SESSION foreign_key_checks = 0";

/* Returns the rows pushed so far; leaves the statement's stack while there are none. */
static int pull(void *own, char *to, unsigned size)
{
    struct innodb_loader *loader = own;

    while (loader->length == 0 && !loader->ended)
        swapcontext(&loader->self, &loader->writer);
    if (loader->length < size)
        size = (unsigned)loader->length;
    memcpy(to, loader->rows, size);
    loader->rows += size;
    loader->length -= size;
    return (int)size;
}

static int pull_begins(void **given, const char *name, void *own)
{
    *given = own;
    return 0;
}

static void pull_ends(void *own)
{
}

static int pull_error(void *own, char *message, unsigned size)
{
    snprintf(message, size, "the rows could not be read");
    return CR_UNKNOWN_ERROR;
}

/* Runs on the loader's stack; makecontext passes only ints. */
static void run_loader(unsigned high, unsigned low)
{
    struct lg_session *session =
        (struct lg_session *)(((uintptr_t)high << 32) | (uintptr_t)low);
    struct innodb_loader *loader = &session->loader;

    loader->failed = mysql_real_query(&session->server, loader->sql.bytes, loader->sql.length);
    loader->running = false;
    swapcontext(&loader->self, &loader->writer);
}

/* Once per connection: its stack, and session settings for loading. */
static bool prepare(struct lg_session *session, struct tb_error *error)
{
    struct innodb_loader *loader = &session->loader;

    if (loader->stack != NULL)
        return true;
    if (mysql_real_query(&session->server, LOADING, sizeof LOADING - 1))
        return innodb_fail(&session->server, "LOAD DATA", error);
    mysql_set_local_infile_handler(&session->server, pull_begins, pull, pull_ends, pull_error,
                                   loader);
    loader->stack = tb_allocate(1, STACK_BYTES);
    return true;
}

bool innodb_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                       struct tb_error *error)
{
    struct innodb_loader *loader = &session->loader;
    uintptr_t address = (uintptr_t)session;

    if (!prepare(session, error))
        return false;
    loader->sql.length = 0;
    tb_text_printf(&loader->sql,
                   "LOAD DATA LOCAL INFILE 'rows' INTO TABLE %s CHARACTER SET latin1 (%s)", table,
                   columns);
    loader->length = 0;
    loader->ended = false;
    loader->running = true;
    getcontext(&loader->self);
    loader->self.uc_stack.ss_sp = loader->stack;
    loader->self.uc_stack.ss_size = STACK_BYTES;
    loader->self.uc_link = NULL;
    makecontext(&loader->self, (void (*)(void))run_loader, 2, (unsigned)(address >> 32),
                (unsigned)address);
    return true;
}

/* Resumes the statement until it needs more rows than there are, or has ended. */
static void resume(struct innodb_loader *loader)
{
    if (loader->running)
        swapcontext(&loader->writer, &loader->self);
}

static bool fail(MYSQL *server, struct tb_error *error)
{
    unsigned code = mysql_errno(server);

    innodb_fail(server, "LOAD DATA", error);
    if (code == LOCAL_DISABLED_MYSQL || code == LOCAL_DISABLED_MARIADB ||
        code == LOCAL_DISABLED_OLD)
        tb_fail(error,
                "the server does not accept rows from clients (error %u): "
                "run SET GLOBAL local_infile = ON",
                code);
    return false;
}

bool innodb_bulk_write(struct lg_session *session, const char *rows, size_t length,
                       struct tb_error *error)
{
    struct innodb_loader *loader = &session->loader;

    loader->rows = rows;
    loader->length = length;
    resume(loader);
    return loader->running ? true : fail(&session->server, error);
}

/* LOAD DATA LOCAL truncates and converts values and only warns: that is an error here. */
int64_t innodb_bulk_end(struct lg_session *session, struct tb_error *error)
{
    struct innodb_loader *loader = &session->loader;
    MYSQL *server = &session->server;
    MYSQL_RES *warnings = NULL;
    MYSQL_ROW row;
    int64_t rows;

    loader->ended = true;
    resume(loader);
    if (loader->failed)
        return fail(server, error), -1;
    rows = (int64_t)mysql_affected_rows(server);
    if (mysql_warning_count(server) == 0)
        return rows;
    if (mysql_query(server, "SHOW WARNINGS LIMIT 1") == 0)
        warnings = mysql_store_result(server);
    row = warnings ? mysql_fetch_row(warnings) : NULL;
    tb_fail(error, "the rows do not fit the table: %s", row ? row[2] : "a warning");
    if (warnings)
        mysql_free_result(warnings);
    return -1;
}

/*
 * A connection to MySQL or MariaDB: statements as text, and LOAD DATA LOCAL from rows that arrive in
 * pieces.
 *
 * LOAD DATA *pulls* its rows while the workload *pushes* them. So it runs on its own stack, which is
 * left whenever it has consumed the pushed rows.
 */
#pragma once

#include "workload.h"

#include <mysql.h>
#include <ucontext.h>

enum phase {
    PHASE_SENDING,
    PHASE_SENT,
    PHASE_ANSWER, /* status of a statement, or the columns of its rows */
    PHASE_ROWS,
    PHASE_NEXT, /* PHASE_ANSWER of the next statement */
    PHASE_UNDO,
    PHASE_DONE,
};

/* A running LOAD DATA, on its own stack. */
struct innodb_loader {
    ucontext_t writer, self;
    char *stack;
    struct tb_text sql;
    const char *rows; /* pushed but not yet pulled */
    size_t length;
    bool running, ended;
    int failed;
};

struct lg_session {
    MYSQL server;
    struct tb_text sql;
    enum phase phase;
    int waits; /* what the library's running call waits for; 0: none is running */
    int query_failed, next; /* results of those calls */
    my_bool answer_failed;
    MYSQL_RES *rows, *kept; /* the set being read; the set with the first row */
    const struct lg_reader *reader; /* of the running statement; may be NULL */
    struct lg_result *result;
    struct innodb_loader loader;
};

/*
 * Writes `statement` with `values` to `sql`, from its start. An array is the text [1,2,3];
 * adjacent arrays, :a:b, are one text of their rows, [[1,4],[2,5],[3,6]].
 */
void innodb_write_statement(struct tb_text *sql, const struct lg_statement *statement,
                            const struct lg_value *values);

/* The server's message in ASCII: other characters may be in any character set. */
void innodb_say(char *to, size_t size, const char *words);

/* The request, and the server's last error. Always false. */
bool innodb_fail(MYSQL *server, const char *action, struct tb_error *error);

/* As lg_backend's bulk_begin, bulk_write and bulk_end, for one table after another. */
bool innodb_bulk_begin(struct lg_session *session, const char *table, const char *columns,
                       struct tb_error *error);
bool innodb_bulk_write(struct lg_session *session, const char *rows, size_t length,
                       struct tb_error *error);
int64_t innodb_bulk_end(struct lg_session *session, struct tb_error *error);

/*
 * Texts: a statement with its values, and the server's error message.
 */
#ifndef INNODB_LOADGEN_TEXT_H
#define INNODB_LOADGEN_TEXT_H

#include "workload.h"

#include <mysql.h>

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

#endif

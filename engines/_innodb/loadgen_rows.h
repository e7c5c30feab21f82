/*
 * LOAD DATA LOCAL from rows that arrive in pieces.
 *
 * The statement *pulls* its rows while the workload *pushes* them. So it runs on its own stack,
 * which is left whenever it has consumed the pushed rows.
 */
#ifndef INNODB_LOADGEN_ROWS_H
#define INNODB_LOADGEN_ROWS_H

#include "workload.h"

#include <mysql.h>

/* One per connection, for one table after another. */
struct innodb_loader;

struct innodb_loader *innodb_loader_new(MYSQL *server);
void innodb_loader_free(struct innodb_loader *loader);

/* As lg_backend's bulk_begin, bulk_write and bulk_end. */
bool innodb_load_begin(struct innodb_loader *loader, const char *table, const char *columns,
                       struct tb_error *error);
bool innodb_load_write(struct innodb_loader *loader, const char *rows, size_t length,
                       struct tb_error *error);
int64_t innodb_load_end(struct innodb_loader *loader, struct tb_error *error);

#endif

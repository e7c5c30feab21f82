# How loadgen's back end for SQL Server is built: against FreeTDS's DB-Library.
find_path(SYBDB_INCLUDE sybdb.h)
find_library(SYBDB_LIBRARY sybdb)
add_backend(sqlserver
  INCLUDE ${SYBDB_INCLUDE} LIBRARY ${SYBDB_LIBRARY} DEBIAN_PACKAGE freetds-dev)

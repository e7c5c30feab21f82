# How loadgen's back end for PostgreSQL is built: against libpq.
find_path(LIBPQ_INCLUDE libpq-fe.h PATH_SUFFIXES postgresql pgsql)
find_library(LIBPQ_LIBRARY pq)
add_backend(postgres
  INCLUDE ${LIBPQ_INCLUDE} LIBRARY ${LIBPQ_LIBRARY} DEBIAN_PACKAGE libpq-dev)

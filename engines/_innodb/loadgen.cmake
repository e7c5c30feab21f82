# How loadgen's back end for MySQL and MariaDB is built: against MariaDB's C connector.
find_path(MARIADB_INCLUDE mysql.h PATH_SUFFIXES mariadb mysql)
find_library(MARIADB_LIBRARY mariadb)
add_backend(innodb
  INCLUDE ${MARIADB_INCLUDE} LIBRARY ${MARIADB_LIBRARY} DEBIAN_PACKAGE libmariadb-dev)

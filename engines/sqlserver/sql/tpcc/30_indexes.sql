\ir ../../../_sql/tpcc/30_indexes.sql

\ir ../../../_sql/tpch/30_indexes.sql

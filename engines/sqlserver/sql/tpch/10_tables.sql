\ir ../../../_sql/tpch/10_tables.sql

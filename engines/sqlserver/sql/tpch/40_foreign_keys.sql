\ir ../../../_sql/tpch/40_foreign_keys.sql

\ir ../../../_sql/tpch/20_keys.sql

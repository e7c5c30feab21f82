-- Primary keys as clause 1.4.1 names them.

\ir ../../../_sql/tpch/20_keys.sql

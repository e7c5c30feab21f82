-- The eight tables of clause 1.4, without keys: rows are loaded into bare tables.
-- Order keys pass 2^31 above scale 357 and are bigint, all other keys fit an integer.

\ir ../../../_sql/tpch/10_tables.sql

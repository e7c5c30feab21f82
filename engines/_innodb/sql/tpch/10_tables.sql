-- The eight tables of clause 1.4, the same as PostgreSQL's: fixed text is char (InnoDB
-- stores it without its padding where a character takes a varying number of bytes).
-- Character set and collation are the database's: comparisons go by byte.

\ir ../../../_sql/tpch/10_tables.sql

-- Texts are ASCII, compared by the database's binary collation.

\ir ../../../_sql/tpcc/10_tables.sql

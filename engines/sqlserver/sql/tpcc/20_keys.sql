-- Each is the table's clustered index, which is SQL Server's default.

\ir ../../../_sql/tpcc/20_keys.sql

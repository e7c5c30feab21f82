-- Foreign keys as clause 1.4.1 names them. Added without looking at the rows: InnoDB would
-- rebuild the whole table for it.

\ir ../../../_sql/tpch/40_foreign_keys.sql

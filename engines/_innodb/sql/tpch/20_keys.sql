-- Primary keys as clause 1.4.1 names them, on the empty tables: InnoDB keeps the rows in
-- the primary key's tree, and the files come in its order.

\ir ../../../_sql/tpch/20_keys.sql

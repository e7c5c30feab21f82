-- On the empty tables: InnoDB keeps the rows in the primary key's tree.

\ir ../../../_sql/tpcc/20_keys.sql

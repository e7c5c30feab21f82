-- Character set and collation are the database's. Times are datetime: InnoDB's timestamp ends in
-- 2038 and sets itself to the current time.

\ir ../../../_sql/tpcc/10_tables.sql

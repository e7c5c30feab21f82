-- Primary keys as clause 1.4.1 names them, on the empty tables: InnoDB keeps the rows in
-- the primary key's tree, and the files come in its order.

\ir ../../../_sql/tpch/20_keys.sql

-- Statistics from more pages of each index than the usual 20, whose draw gives another plan
-- from load to load.

alter table lineitem stats_sample_pages = 256;
alter table orders stats_sample_pages = 256;
alter table partsupp stats_sample_pages = 256;
alter table part stats_sample_pages = 256;
alter table customer stats_sample_pages = 256;
alter table supplier stats_sample_pages = 256;

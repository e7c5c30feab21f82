-- Statistics from more pages than the usual 20 of each index, which at larger scales draw
-- another plan from load to load.

alter table lineitem stats_sample_pages = 256;
alter table orders stats_sample_pages = 256;
alter table partsupp stats_sample_pages = 256;
alter table part stats_sample_pages = 256;
alter table customer stats_sample_pages = 256;
alter table supplier stats_sample_pages = 256;
analyze table lineitem;
analyze table orders;
analyze table partsupp;
analyze table part;
analyze table customer;
analyze table supplier;
analyze table nation;
analyze table region;

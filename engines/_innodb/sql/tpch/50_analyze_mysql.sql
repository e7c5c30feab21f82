-- Counts of distinct keys, and histograms of the columns that the queries test and no index
-- begins with, as PostgreSQL's ANALYZE keeps them of every column. Without them MySQL takes a
-- condition to let a third of the rows through.

analyze table lineitem;
analyze table orders;
analyze table partsupp;
analyze table part;
analyze table customer;
analyze table supplier;
analyze table nation;
analyze table region;
analyze table lineitem update histogram on
    l_quantity, l_discount, l_returnflag, l_shipdate, l_commitdate, l_receiptdate,
    l_shipinstruct, l_shipmode with 100 buckets;
analyze table orders update histogram on o_orderstatus, o_orderdate, o_orderpriority with 100 buckets;
analyze table partsupp update histogram on ps_availqty, ps_supplycost with 100 buckets;
analyze table part update histogram on p_name, p_brand, p_type, p_size, p_container with 100 buckets;
analyze table customer update histogram on c_mktsegment, c_acctbal with 100 buckets;
analyze table nation update histogram on n_name with 100 buckets;
analyze table region update histogram on r_name with 100 buckets;

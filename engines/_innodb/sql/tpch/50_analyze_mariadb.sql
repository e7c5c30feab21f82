-- Counts of distinct keys, kept until somebody analyses again.

analyze table lineitem;
analyze table orders;
analyze table partsupp;
analyze table part;
analyze table customer;
analyze table supplier;
analyze table nation;
analyze table region;

-- Counts of distinct keys, and histograms of every column, as PostgreSQL's ANALYZE keeps them.
-- Without them MariaDB takes a condition on a column without an index to let all rows through.

analyze table lineitem persistent for all;
analyze table orders persistent for all;
analyze table partsupp persistent for all;
analyze table part persistent for all;
analyze table customer persistent for all;
analyze table supplier persistent for all;
analyze table nation persistent for all;
analyze table region persistent for all;

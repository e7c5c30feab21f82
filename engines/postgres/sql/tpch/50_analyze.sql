-- Statistics, and the visibility map that index-only scans need. Vacuuming now also
-- sets the hint bits, which the first query over a table would write otherwise.

vacuum (analyze) lineitem;
vacuum (analyze) orders;
vacuum (analyze) partsupp;
vacuum (analyze) part;
vacuum (analyze) customer;
vacuum (analyze) supplier;
vacuum (analyze) nation;
vacuum (analyze) region;

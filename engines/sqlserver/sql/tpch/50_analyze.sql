-- Statistics of indexes exist since they were built, those of other columns come with the first
-- query that needs them: only these are to be brought up to date.

update statistics lineitem with fullscan;
update statistics orders with fullscan;
update statistics partsupp with fullscan;
update statistics part with fullscan;
update statistics customer with fullscan;
update statistics supplier with fullscan;
update statistics nation with fullscan;
update statistics region with fullscan;

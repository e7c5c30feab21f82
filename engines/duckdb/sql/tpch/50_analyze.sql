-- Distinct counts are kept up by the inserts, min and max by the row groups: ANALYZE has
-- little left to do, but what there is must not be left to the first query.

analyze;

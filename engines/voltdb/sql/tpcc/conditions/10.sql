-- Clause 3.3.2.10: C_BALANCE = sum(OL_AMOUNT) of the customer's delivered order lines
-- - sum(H_AMOUNT) of the customer. A customer's history is in the partitions of those who were
-- paid: no single statement of VoltDB joins it with the customer.
exec Condition10

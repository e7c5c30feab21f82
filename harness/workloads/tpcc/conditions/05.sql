-- Clause 3.3.2.5: O_CARRIER_ID of an order is null if and only if there is its row in
-- NEW-ORDER.
SELECT o_w_id AS w_id, o_d_id AS d_id, o_id, o_carrier_id, no_o_id
FROM orders
LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
WHERE (o_carrier_id IS NULL AND no_o_id IS NULL)
   OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL)

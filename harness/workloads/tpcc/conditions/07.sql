-- Clause 3.3.2.7: OL_DELIVERY_D is null if and only if O_CARRIER_ID of its order is null.
SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id
FROM order_line
JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
WHERE (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL)
   OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)

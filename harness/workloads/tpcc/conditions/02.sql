-- Clause 3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID) of each district; the last
-- one where the district has an order that waits for its delivery.
SELECT d_w_id, d_id, d_next_o_id, o.last_o_id, n.last_no_o_id
FROM district
LEFT JOIN (
    SELECT o_w_id, o_d_id, max(o_id) AS last_o_id FROM orders GROUP BY o_w_id, o_d_id
) o ON o.o_w_id = d_w_id AND o.o_d_id = d_id
LEFT JOIN (
    SELECT no_w_id, no_d_id, max(no_o_id) AS last_no_o_id FROM new_order GROUP BY no_w_id, no_d_id
) n ON n.no_w_id = d_w_id AND n.no_d_id = d_id
WHERE d_next_o_id - 1 <> coalesce(o.last_o_id, 0)
   OR d_next_o_id - 1 <> coalesce(n.last_no_o_id, d_next_o_id - 1)

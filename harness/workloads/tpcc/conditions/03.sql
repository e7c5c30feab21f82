-- Clause 3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER, of each district.
SELECT no_w_id, no_d_id, min(no_o_id) AS first_no_o_id, max(no_o_id) AS last_no_o_id,
       count(*) AS new_orders
FROM new_order
GROUP BY no_w_id, no_d_id
HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)

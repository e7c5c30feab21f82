-- Clause 3.3.2.11: rows of ORDER - rows of NEW-ORDER = 2100 of each district, which is so
-- of the data as loaded; each order that is delivered since adds one, and counts in
-- C_DELIVERY_CNT of its customer (clause 2.7.4.2), where 0 was loaded.
SELECT d_w_id, d_id, o.orders, n.new_orders, c.deliveries
FROM district
LEFT JOIN (
    SELECT o_w_id, o_d_id, count(*) AS orders FROM orders GROUP BY o_w_id, o_d_id
) o ON o.o_w_id = d_w_id AND o.o_d_id = d_id
LEFT JOIN (
    SELECT no_w_id, no_d_id, count(*) AS new_orders FROM new_order GROUP BY no_w_id, no_d_id
) n ON n.no_w_id = d_w_id AND n.no_d_id = d_id
LEFT JOIN (
    SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries
    FROM customer
    GROUP BY c_w_id, c_d_id
) c ON c.c_w_id = d_w_id AND c.c_d_id = d_id
WHERE coalesce(o.orders, 0) - coalesce(n.new_orders, 0) <> 2100 + coalesce(c.deliveries, 0)

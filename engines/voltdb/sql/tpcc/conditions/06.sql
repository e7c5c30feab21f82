-- Clause 3.3.2.6: O_OL_CNT = rows of ORDER-LINE of that order. Without a subquery, whose rows
-- VoltDB would look for one by one.
SELECT o_w_id, o_d_id, o_id, o_ol_cnt, count(ol_number) AS order_lines
FROM orders
LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
GROUP BY o_w_id, o_d_id, o_id, o_ol_cnt
HAVING count(ol_number) <> o_ol_cnt
LIMIT 4

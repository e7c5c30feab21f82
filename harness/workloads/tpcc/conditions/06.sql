-- Clause 3.3.2.6: O_OL_CNT = rows of ORDER-LINE of that order.
SELECT o_w_id, o_d_id, o_id, o_ol_cnt, l.order_lines
FROM orders
LEFT JOIN (
    SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS order_lines
    FROM order_line
    GROUP BY ol_w_id, ol_d_id, ol_o_id
) l ON l.ol_w_id = o_w_id AND l.ol_d_id = o_d_id AND l.ol_o_id = o_id
WHERE o_ol_cnt <> coalesce(l.order_lines, 0)

-- Clause 3.3.2.4: sum(O_OL_CNT) = rows of ORDER-LINE, of each district.
SELECT d_w_id, d_id, o.ol_cnt AS sum_o_ol_cnt, l.order_lines
FROM district
LEFT JOIN (
    SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS ol_cnt FROM orders GROUP BY o_w_id, o_d_id
) o ON o.o_w_id = d_w_id AND o.o_d_id = d_id
LEFT JOIN (
    SELECT ol_w_id, ol_d_id, count(*) AS order_lines FROM order_line GROUP BY ol_w_id, ol_d_id
) l ON l.ol_w_id = d_w_id AND l.ol_d_id = d_id
WHERE coalesce(o.ol_cnt, 0) <> coalesce(l.order_lines, 0)

-- Clause 3.3.2.8: W_YTD = sum(H_AMOUNT) of each warehouse.
SELECT w_id, w_ytd, h.amount AS sum_h_amount
FROM warehouse
LEFT JOIN (SELECT h_w_id, sum(h_amount) AS amount FROM history GROUP BY h_w_id) h
    ON h.h_w_id = w_id
WHERE w_ytd <> coalesce(h.amount, 0)

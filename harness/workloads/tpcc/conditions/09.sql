-- Clause 3.3.2.9: D_YTD = sum(H_AMOUNT) of each district.
SELECT d_w_id, d_id, d_ytd, h.amount AS sum_h_amount
FROM district
LEFT JOIN (
    SELECT h_w_id, h_d_id, sum(h_amount) AS amount FROM history GROUP BY h_w_id, h_d_id
) h ON h.h_w_id = d_w_id AND h.h_d_id = d_id
WHERE d_ytd <> coalesce(h.amount, 0)

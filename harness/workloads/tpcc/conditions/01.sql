-- Clause 3.3.2.1: W_YTD = sum(D_YTD) of each warehouse.
SELECT w_id, w_ytd, d.ytd AS sum_d_ytd
FROM warehouse
LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) d ON d.d_w_id = w_id
WHERE w_ytd <> coalesce(d.ytd, 0)

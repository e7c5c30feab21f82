-- Clause 3.3.2.10: C_BALANCE = sum(OL_AMOUNT) of the customer's delivered order lines
-- - sum(H_AMOUNT) of the customer.
SELECT c_w_id, c_d_id, c_id, c_balance, l.amount AS sum_ol_amount, h.amount AS sum_h_amount
FROM customer
LEFT JOIN (
    SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount
    FROM orders
    JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE ol_delivery_d IS NOT NULL
    GROUP BY o_w_id, o_d_id, o_c_id
) l ON l.o_w_id = c_w_id AND l.o_d_id = c_d_id AND l.o_c_id = c_id
LEFT JOIN (
    SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS amount
    FROM history
    GROUP BY h_c_w_id, h_c_d_id, h_c_id
) h ON h.h_c_w_id = c_w_id AND h.h_c_d_id = c_d_id AND h.h_c_id = c_id
WHERE c_balance <> coalesce(l.amount, 0) - coalesce(h.amount, 0)

-- Clause 3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of the customer's delivered
-- order lines.
SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, l.amount AS sum_ol_amount
FROM customer
LEFT JOIN (
    SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount
    FROM orders
    JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE ol_delivery_d IS NOT NULL
    GROUP BY o_w_id, o_d_id, o_c_id
) l ON l.o_w_id = c_w_id AND l.o_d_id = c_d_id AND l.o_c_id = c_id
WHERE c_balance + c_ytd_payment <> coalesce(l.amount, 0)

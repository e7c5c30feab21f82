-- Clause 3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of the customer's delivered
-- order lines. Without a subquery, whose rows VoltDB would look for one by one.
SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, sum(ol_amount) AS sum_ol_amount
FROM customer
LEFT JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    AND ol_delivery_d IS NOT NULL
GROUP BY c_w_id, c_d_id, c_id, c_balance, c_ytd_payment
HAVING c_balance + c_ytd_payment <> coalesce(sum(ol_amount), 0)
LIMIT 4

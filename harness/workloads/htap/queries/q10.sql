-- Customers with the highest revenue of lines that were delivered after the order's entry.
select c_w_id, c_d_id, c_id, c_last, c_city, c_phone, n_name, sum(ol_amount) as revenue
from customer
join orders on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
join nation on n_nationkey = ascii(substring(c_state, 1, 1))
where o_entry_d >= timestamp '2007-01-02 00:00:00' and ol_delivery_d >= o_entry_d
group by c_w_id, c_d_id, c_id, c_last, c_city, c_phone, n_name
order by revenue desc, c_w_id, c_d_id, c_id
limit 20

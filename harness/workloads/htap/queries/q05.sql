-- Revenue of a region's nations with suppliers from the customer's own nation.
select n_name, sum(ol_amount) as revenue
from customer
join orders on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
join stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id
join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
join nation on n_nationkey = su_nationkey
join region on r_regionkey = n_regionkey
where su_nationkey = ascii(substring(c_state, 1, 1))
  and r_name = 'Europe'
  and o_entry_d >= timestamp '2007-01-02 00:00:00'
group by n_name
order by revenue desc, n_name

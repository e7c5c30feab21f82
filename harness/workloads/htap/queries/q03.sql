-- Orders of the highest value that are not delivered, of customers in certain states.
select ol_w_id, ol_d_id, ol_o_id, o_entry_d, sum(ol_amount) as revenue
from customer
join orders on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
where c_state like 'A%' and o_entry_d > timestamp '2007-01-02 00:00:00'
group by ol_w_id, ol_d_id, ol_o_id, o_entry_d
order by revenue desc, o_entry_d, ol_w_id, ol_d_id, ol_o_id
limit 10

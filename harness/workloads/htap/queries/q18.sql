-- Customers of the largest orders.
with large as (
    select ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) as amount
    from order_line
    group by ol_w_id, ol_d_id, ol_o_id
    having sum(ol_amount) > 200
)
select c_last, c_w_id, c_d_id, c_id, o_id, o_entry_d, o_ol_cnt, amount
from large
join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
join customer on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
order by amount desc, o_entry_d, c_w_id, c_d_id, o_id
limit 100

-- Number of customers by the number of their orders that late carriers have.
select order_count, count(*) as customer_count
from (
    select c_w_id, c_d_id, c_id, count(o_id) as order_count
    from customer
    left join orders
        on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id and o_carrier_id > 8
    group by c_w_id, c_d_id, c_id
) counted
group by order_count
order by customer_count desc, order_count desc

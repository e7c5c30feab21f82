-- Items that have more than a small share of all orders of stock of a nation's suppliers.
with of_nation as (
    select s_i_id, s_order_cnt
    from stock
    join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
    join nation on n_nationkey = su_nationkey
    where n_name = 'Germany'
)
select s_i_id, sum(s_order_cnt) as order_count
from of_nation
group by s_i_id
having sum(s_order_cnt) > (select sum(s_order_cnt) * 0.005 from of_nation)
order by order_count desc, s_i_id

-- Revenue a year of lines of certain items whose quantity is below the item's mean.
with means as (
    select i_id, avg(ol_quantity) as quantity
    from item
    join order_line on ol_i_id = i_id
    where i_data like '%b'
    group by i_id
)
select sum(ol_amount) / 2.0 as yearly_revenue
from means
join order_line on ol_i_id = i_id and ol_quantity < quantity

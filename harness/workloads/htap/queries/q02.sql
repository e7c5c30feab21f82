-- Suppliers of a region whose stock of certain items is the lowest in that region.
with regional as (
    select s_i_id, s_quantity, su_suppkey, su_name, su_address, su_phone, su_comment, n_name
    from stock
    join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
    join nation on n_nationkey = su_nationkey
    join region on r_regionkey = n_regionkey
    where r_name = 'Europe'
),
lowest as (
    select s_i_id as item, min(s_quantity) as quantity
    from regional
    group by s_i_id
)
select su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment
from lowest
join regional on s_i_id = item and s_quantity = quantity
join item on i_id = item
where i_data like '%b'
order by n_name, su_suppkey, i_id
limit 100

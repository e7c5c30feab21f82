-- A nation's suppliers with much stock of certain items, compared with what was delivered of it.
with delivered as (
    select ol_supply_w_id, ol_i_id, sum(ol_quantity) as quantity
    from order_line
    where ol_delivery_d > timestamp '2010-05-23 12:00:00'
    group by ol_supply_w_id, ol_i_id
)
select su_suppkey, su_name, su_address
from supplier
join nation on n_nationkey = su_nationkey
where n_name = 'Germany'
  and su_suppkey in (
      select mod(s_w_id * s_i_id, 10000)
      from stock
      join item on i_id = s_i_id
      join delivered on ol_supply_w_id = s_w_id and ol_i_id = s_i_id
      where i_data like 'c%' and 2 * s_quantity > quantity
  )
order by su_suppkey

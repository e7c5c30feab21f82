-- A nation's suppliers of lines that were delivered last of their order, after its entry.
select su_suppkey, su_name, count(*) as late_lines
from order_line late
join orders on o_w_id = late.ol_w_id and o_d_id = late.ol_d_id and o_id = late.ol_o_id
join stock on s_w_id = late.ol_supply_w_id and s_i_id = late.ol_i_id
join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
join nation on n_nationkey = su_nationkey
where late.ol_delivery_d > o_entry_d
  and n_name = 'Germany'
  and not exists (
      select 1
      from order_line later
      where later.ol_w_id = late.ol_w_id
        and later.ol_d_id = late.ol_d_id
        and later.ol_o_id = late.ol_o_id
        and later.ol_delivery_d > late.ol_delivery_d
  )
group by su_suppkey, su_name
order by late_lines desc, su_suppkey
limit 100

-- Orders with a line that was delivered after their entry, by their number of lines.
select o_ol_cnt, count(*) as order_count
from orders
where o_entry_d >= timestamp '2007-01-02 00:00:00'
  and o_entry_d < timestamp '2100-01-01 00:00:00'
  and exists (
      select 1
      from order_line
      where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
        and ol_delivery_d >= o_entry_d
  )
group by o_ol_cnt
order by o_ol_cnt

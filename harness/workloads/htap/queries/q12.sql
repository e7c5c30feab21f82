-- Delivered lines by the size of their order, of urgent carriers and of others.
select
    o_ol_cnt,
    sum(case when o_carrier_id in (1, 2) then 1 else 0 end) as urgent_lines,
    sum(case when o_carrier_id in (1, 2) then 0 else 1 end) as other_lines
from orders
join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
where ol_delivery_d >= o_entry_d and ol_delivery_d < timestamp '2100-01-01 00:00:00'
group by o_ol_cnt
order by o_ol_cnt

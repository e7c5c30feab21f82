-- Share of the revenue that promoted items have, in per cent.
select
    100.00 * sum(case when i_data like 'PR%' then ol_amount else 0 end) / nullif(sum(ol_amount), 0)
        as promoted_percent
from order_line
join item on i_id = ol_i_id
where ol_delivery_d >= timestamp '2007-01-02 00:00:00'
  and ol_delivery_d < timestamp '2100-01-01 00:00:00'

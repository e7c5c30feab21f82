-- Revenue of the order lines of a range of quantities.
select sum(ol_amount) as revenue
from order_line
where ol_delivery_d >= timestamp '1999-01-01 00:00:00'
  and ol_delivery_d < timestamp '2100-01-01 00:00:00'
  and ol_quantity between 1 and 100000

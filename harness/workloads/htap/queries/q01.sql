-- Order lines delivered so far, by their place in the order.
select
    ol_number,
    sum(ol_quantity) as quantity,
    sum(ol_amount) as amount,
    avg(ol_quantity) as mean_quantity,
    avg(ol_amount) as mean_amount,
    count(*) as line_count
from order_line
where ol_delivery_d > timestamp '2007-01-02 00:00:00'
group by ol_number
order by ol_number

-- Revenue of lines that are one of three kinds.
select sum(ol_amount) as revenue
from order_line
join item on i_id = ol_i_id
where (i_data like '%a' and ol_quantity between 1 and 10
       and i_price between 1 and 90 and ol_w_id in (1, 2, 3))
   or (i_data like '%b' and ol_quantity between 1 and 10
       and i_price between 1 and 90 and ol_w_id in (1, 2, 4))
   or (i_data like '%c' and ol_quantity between 1 and 10
       and i_price between 1 and 90 and ol_w_id in (1, 5, 3))

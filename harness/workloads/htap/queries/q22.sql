-- Customers with a balance above the mean and without orders, by the first letter of their state.
select substring(c_state, 1, 1) as country, count(*) as customer_count, sum(c_balance) as balance
from customer
where substring(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')
  and c_balance > (
      select avg(c_balance)
      from customer
      where c_balance > 0 and substring(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')
  )
  and not exists (
      select 1 from orders where o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
  )
group by substring(c_state, 1, 1)
order by country

select customer.city, avg(purchase.quantity) as mean_quantity, max(purchase.bought) as latest
from customer
join purchase on purchase.customer_id = customer.id
group by customer.city
having count(*) > 100
order by customer.city;

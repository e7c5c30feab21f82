select customer.name, sum(purchase.quantity * product.price) as spent
from customer
join purchase on purchase.customer_id = customer.id
join product on product.id = purchase.product_id
group by customer.id, customer.name
order by spent desc, customer.name
limit 10;

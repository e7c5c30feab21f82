select product.category, count(*) as purchases, sum(purchase.quantity * product.price) as revenue
from purchase
join product on product.id = purchase.product_id
group by product.category
order by product.category;

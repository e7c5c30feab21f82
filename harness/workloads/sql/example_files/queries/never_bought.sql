select product.id, product.name
from product
where not exists (select 1 from purchase where purchase.product_id = product.id)
order by product.id;

-- A row of any of these statements fails the run.

select id from purchase where quantity <= 0;

select purchase.id
from purchase left join customer on customer.id = purchase.customer_id
where customer.id is null;

-- Number of suppliers of items by brand and price, without those that customers complain of.
select
    substring(i_data, 1, 3) as brand,
    i_price,
    count(distinct mod(s_w_id * s_i_id, 10000)) as supplier_count
from stock
join item on i_id = s_i_id
where i_data not like 'zz%'
  and mod(s_w_id * s_i_id, 10000) not in (
      select su_suppkey from supplier where su_comment like '%Customer%Complaints%'
  )
group by substring(i_data, 1, 3), i_price
order by supplier_count desc, i_price, brand
limit 100

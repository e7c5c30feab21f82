-- Revenue with certain items, by the supplier's nation and year.
select n_name, extract(year from o_entry_d) as entry_year, sum(ol_amount) as revenue
from item
join order_line on ol_i_id = i_id
join stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id
join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
join nation on n_nationkey = su_nationkey
join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
where i_data like '%b'
group by n_name, extract(year from o_entry_d)
order by n_name, entry_year desc

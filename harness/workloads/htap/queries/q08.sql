-- A nation's share of what a region's customers spend on certain items, by year.
select
    extract(year from o_entry_d) as entry_year,
    sum(case when supplying.n_name = 'Germany' then ol_amount else 0 end) / sum(ol_amount) as share
from item
join order_line on ol_i_id = i_id
join stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id
join supplier on su_suppkey = mod(s_w_id * s_i_id, 10000)
join nation supplying on supplying.n_nationkey = su_nationkey
join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
join customer on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
join nation buying on buying.n_nationkey = ascii(substring(c_state, 1, 1))
join region on r_regionkey = buying.n_regionkey
where i_data like '%b'
  and r_name = 'Europe'
  and o_entry_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-01 00:00:00'
group by extract(year from o_entry_d)
order by entry_year

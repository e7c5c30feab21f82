-- Trade between two nations in both directions, by year.
select
    su_nationkey as supplier_nation,
    substring(c_state, 1, 1) as customer_nation,
    extract(year from o_entry_d) as entry_year,
    sum(ol_amount) as revenue
from supplier
join stock on su_suppkey = mod(s_w_id * s_i_id, 10000)
join order_line on ol_supply_w_id = s_w_id and ol_i_id = s_i_id
join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
join customer on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
join nation supplying on supplying.n_nationkey = su_nationkey
join nation buying on buying.n_nationkey = ascii(substring(c_state, 1, 1))
where ((supplying.n_name = 'Germany' and buying.n_name = 'Cambodia')
       or (supplying.n_name = 'Cambodia' and buying.n_name = 'Germany'))
  and ol_delivery_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-01 00:00:00'
group by su_nationkey, substring(c_state, 1, 1), extract(year from o_entry_d)
order by su_nationkey, customer_nation, entry_year

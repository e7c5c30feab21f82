select *
from ostat(:w_id, :d_id, :c_id, :by_name, :c_last) as (
    ol_i_id integer, ol_supply_w_id integer, ol_quantity smallint, ol_amount numeric,
    ol_delivery_d timestamptz, c_id integer, c_last varchar, c_first varchar, c_middle varchar,
    c_balance numeric, o_id integer, o_entry_d timestamp, o_carrier_id integer
)

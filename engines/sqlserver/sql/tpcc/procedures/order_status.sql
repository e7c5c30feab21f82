-- Order-Status (clause 2.6): the customer's newest order, a row for each of its lines. All that
-- transactions change is read in one statement, and so of one snapshot.

create procedure tpcc_order_status @w_id int, @d_id int, @c_id int, @c_last varchar(16)
as
set nocount, xact_abort on;

begin transaction;
if @c_id is null
    -- The middle one of those with the name, by first name (clause 2.5.2.2).
    select @c_id = c_id
    from (
        select c_id, row_number() over (order by c_first, c_id) as n, count(*) over () as total
        from customer where c_w_id = @w_id and c_d_id = @d_id and c_last = @c_last
    ) named
    where n = (total + 1) / 2;
select c_id, o_id, c_first, c_middle, c_last, c_balance, o_entry_d, o_carrier_id,
    ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d
from customer
cross apply (
    select top (1) o_id, o_entry_d, o_carrier_id from orders
    where o_w_id = @w_id and o_d_id = @d_id and o_c_id = @c_id
    order by o_id desc
) newest
join order_line on ol_w_id = @w_id and ol_d_id = @d_id and ol_o_id = o_id
where c_w_id = @w_id and c_d_id = @d_id and c_id = @c_id;
commit;

-- Order-Status (clause 2.6.2.2). STABLE: everything is read as of one moment.
create function tpcc_order_status(
    p_w_id integer, p_d_id integer, p_c_id integer, p_c_last varchar,
    out c_id integer, out o_id integer, out o_entry_d timestamp, out o_carrier_id integer,
    out c_balance numeric, out c_first varchar, out c_middle char(2), out c_last varchar,
    out items integer[], out supplies integer[], out quantities smallint[],
    out amounts numeric[], out delivery_dates timestamp[]
) language plpgsql stable as $$
#variable_conflict use_column
begin
    if p_c_id is null then
        p_c_id := tpcc_customer_named(p_w_id, p_d_id, p_c_last);
    end if;
    select c_id, newest.o_id, newest.o_entry_d, newest.o_carrier_id, c_balance, c_first,
        c_middle, c_last, lines.items, lines.supplies, lines.quantities, lines.amounts,
        lines.dates
    into c_id, o_id, o_entry_d, o_carrier_id, c_balance, c_first, c_middle, c_last,
        items, supplies, quantities, amounts, delivery_dates
    from customer
    cross join lateral (
        select o_id, o_entry_d, o_carrier_id from orders
        where o_w_id = p_w_id and o_d_id = p_d_id and o_c_id = c_id
        order by o_id desc limit 1
    ) newest
    cross join lateral (
        select array_agg(ol_i_id) as items, array_agg(ol_supply_w_id) as supplies,
            array_agg(ol_quantity) as quantities, array_agg(ol_amount) as amounts,
            array_agg(ol_delivery_d) as dates
        from order_line
        where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = newest.o_id
    ) lines
    where c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id;
    if not found then
        raise no_data_found using message = 'no such customer';
    end if;
end
$$

-- New-Order (clause 2.4.2.2).
--
-- Stock is locked in the order of warehouse and item, so that two orders cannot wait for
-- one another. `numbers` tells which lines the arrays behind it belong to.
--
-- Fewer rows of stock than lines were taken when an item stands twice in an order (a
-- statement updates a row once): those lines follow one by one. Or when the last item is
-- unused: everything else was done, as clause 2.4.2.3 wants it, and the error TB001 has the
-- server undo it.
create function tpcc_new_order(
    p_w_id integer, p_d_id integer, p_c_id integer, p_ol_cnt integer, p_all_local integer,
    p_items integer[], p_supplies integer[], p_quantities integer[],
    out o_id integer, out total_amount numeric, out o_entry_d timestamp,
    out c_last varchar, out c_credit char(2), out c_discount numeric,
    out w_tax numeric, out d_tax numeric,
    out numbers bigint[], out names varchar[], out stock_quantities integer[],
    out brands text[], out prices numeric[], out amounts numeric[]
) language plpgsql as $$
#variable_conflict use_column
declare
    v_o_id integer;
    rest record;
    line record;
begin
    update district set d_next_o_id = d_next_o_id + 1
    where d_w_id = p_w_id and d_id = p_d_id
    returning d_next_o_id - 1, d_tax, localtimestamp into strict v_o_id, d_tax, o_entry_d;

    select c_last, c_credit, c_discount, w_tax into strict c_last, c_credit, c_discount, w_tax
    from customer, warehouse
    where c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id and w_id = p_w_id;

    insert into orders
        (o_w_id, o_id, o_c_id, o_d_id, o_ol_cnt, o_entry_d, o_all_local, o_carrier_id)
    values (p_w_id, v_o_id, p_c_id, p_d_id, p_ol_cnt, o_entry_d, p_all_local, null);

    insert into new_order (no_w_id, no_o_id, no_d_id) values (p_w_id, v_o_id, p_d_id);

    with taken as (
        update stock
        set s_quantity = s_quantity - quantity
                + case when s_quantity >= quantity + 10 then 0 else 91 end,
            s_ytd = s_ytd + quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + case when supply = p_w_id then 0 else 1 end
        from (
            select number, item, supply, quantity
            from unnest(p_items, p_supplies, p_quantities)
                with ordinality as asked (item, supply, quantity, number)
            order by supply, item, number
        ) asked
        join item on i_id = item
        where s_w_id = supply and s_i_id = item
        returning number, item, supply, quantity, i_name, s_quantity, i_price,
            quantity * i_price as amount,
            case when i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%'
                then 'B' else 'G' end as brand,
            case p_d_id
                when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
                when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06
                when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09
                else s_dist_10 end as dist_info
    ), written as (
        insert into order_line
            (ol_w_id, ol_o_id, ol_d_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
             ol_delivery_d, ol_amount, ol_dist_info)
        select p_w_id, v_o_id, p_d_id, number, item, supply, quantity, null, amount, dist_info
        from taken
    )
    select array_agg(number), array_agg(i_name), array_agg(s_quantity), array_agg(brand),
        array_agg(i_price), array_agg(amount), sum(amount)
    into numbers, names, stock_quantities, brands, prices, amounts, total_amount
    from taken;

    if cardinality(numbers) is distinct from p_ol_cnt then
        for rest in
            select number, item, supply, quantity
            from unnest(p_items, p_supplies, p_quantities)
                with ordinality as asked (item, supply, quantity, number)
            where number <> all (coalesce(numbers, '{}'))
            order by number
        loop
            line := tpcc_new_order_line(p_w_id, p_d_id, v_o_id, rest.number::integer, rest.item,
                rest.supply, rest.quantity);
            numbers := numbers || rest.number;
            names := names || line.name;
            stock_quantities := stock_quantities || line.stock_quantity;
            brands := brands || line.brand;
            prices := prices || line.price;
            amounts := amounts || line.amount;
            total_amount := coalesce(total_amount, 0) + line.amount;
        end loop;
    end if;
    total_amount := total_amount * (1 - c_discount) * (1 + w_tax + d_tax);
    o_id := v_o_id;
end
$$

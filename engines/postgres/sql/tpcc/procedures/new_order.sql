-- New-Order (clause 2.4.2.2).
--
-- Stock is locked in the order of warehouse and item, so that two orders cannot wait for
-- one another. `lines` is what the terminal shows of each line, in no order: number, name of
-- the item, quantity in stock, brand, price and amount, apart by tabs. One text costs the
-- server less than an array of each.
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
    out w_tax numeric, out d_tax numeric, out lines text
) language plpgsql as $$
#variable_conflict use_column
declare
    v_o_id integer;
    taken_count integer;
    rest integer;
    line record;
begin
    update district set d_next_o_id = d_next_o_id + 1
    from customer, warehouse
    where d_w_id = p_w_id and d_id = p_d_id
        and c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id and w_id = p_w_id
    returning d_next_o_id - 1, d_tax, localtimestamp, c_last, c_credit, c_discount, w_tax
    into strict v_o_id, d_tax, o_entry_d, c_last, c_credit, c_discount, w_tax;

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
            select number, p_items[number] as item, p_supplies[number] as supply,
                p_quantities[number] as quantity
            from generate_series(1, p_ol_cnt) as number
            order by supply, item, number
        ) requested
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
    select count(*), sum(amount), string_agg(
        concat_ws(e'\t', number, i_name, s_quantity, brand, i_price, amount), e'\n')
    into taken_count, total_amount, lines
    from taken;

    if taken_count < p_ol_cnt then
        for rest in
            select number from generate_series(1, p_ol_cnt) as number
            where not exists (
                select from order_line
                where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = v_o_id
                    and ol_number = number
            )
            order by number
        loop
            line := tpcc_new_order_line(
                p_w_id, p_d_id, v_o_id, rest, p_items[rest], p_supplies[rest], p_quantities[rest]);
            total_amount := coalesce(total_amount, 0) + line.amount;
            lines := concat_ws(e'\n', lines, concat_ws(e'\t', rest, line.name,
                line.stock_quantity, line.brand, line.price, line.amount));
        end loop;
    end if;
    total_amount := total_amount * (1 - c_discount) * (1 + w_tax + d_tax);
    o_id := v_o_id;
end
$$

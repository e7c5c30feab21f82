-- New-Order (clause 2.4.2.2), all of it in one statement.
--
-- Stock is locked in the order of warehouse and item, so that two orders cannot wait for
-- one another, and before the district, whose row every order of the district needs.
-- `numbers` tells which lines the arrays behind it belong to.
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
    line record;
    again record;
begin
    with taken as (
        update stock
        set s_quantity = s_quantity - quantity
                + case when s_quantity >= quantity + 10 then 0 else 91 end,
            s_ytd = s_ytd + quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + case when supply = p_w_id then 0 else 1 end
        from (
            select number, item, supply, quantity, i_price, i_name, i_data
            from unnest(p_items, p_supplies, p_quantities)
                with ordinality as asked (item, supply, quantity, number)
            join item on i_id = item
            order by supply, item, number
        ) line
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
    ), lines as (
        select array_agg(number) as numbers, array_agg(i_name) as names,
            array_agg(s_quantity) as stock_quantities, array_agg(brand) as brands,
            array_agg(i_price) as prices, array_agg(amount) as amounts, sum(amount) as amount
        from taken
    ), next as (
        update district set d_next_o_id = d_next_o_id + 1
        where d_w_id = p_w_id and d_id = p_d_id and (select amount from lines) is distinct from -1
        returning d_next_o_id - 1 as o_id, d_tax
    ), placed as (
        insert into orders
            (o_w_id, o_id, o_c_id, o_d_id, o_ol_cnt, o_entry_d, o_all_local, o_carrier_id)
        select p_w_id, o_id, p_c_id, p_d_id, p_ol_cnt, localtimestamp, p_all_local, null
        from next
    ), waiting as (
        insert into new_order (no_w_id, no_o_id, no_d_id)
        select p_w_id, o_id, p_d_id from next
    ), written as (
        insert into order_line
            (ol_w_id, ol_o_id, ol_d_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
             ol_delivery_d, ol_amount, ol_dist_info)
        select p_w_id, (select o_id from next), p_d_id, number, item, supply, quantity,
            null, amount, dist_info
        from taken
    )
    select next.o_id, lines.amount * (1 - c_discount) * (1 + w_tax + d_tax), localtimestamp,
        c_last, c_credit, c_discount, w_tax, d_tax,
        lines.numbers, lines.names, lines.stock_quantities, lines.brands, lines.prices,
        lines.amounts
    into o_id, total_amount, o_entry_d, c_last, c_credit, c_discount, w_tax, d_tax,
        numbers, names, stock_quantities, brands, prices, amounts
    from lines, next, customer, warehouse
    where c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id and w_id = p_w_id;

    if cardinality(numbers) is distinct from p_ol_cnt then
        for line in
            select number, item, supply, quantity
            from unnest(p_items, p_supplies, p_quantities)
                with ordinality as asked (item, supply, quantity, number)
            where numbers is null or number <> all (numbers)
            order by number
        loop
            select * into strict again
            from tpcc_new_order_line(p_w_id, p_d_id, o_id, line.number::integer, line.item,
                line.supply, line.quantity) as again;
            numbers := numbers || line.number;
            names := names || again.name;
            stock_quantities := stock_quantities || again.stock_quantity;
            brands := brands || again.brand;
            prices := prices || again.price;
            amounts := amounts || again.amount;
            total_amount := total_amount
                + again.amount * (1 - c_discount) * (1 + w_tax + d_tax);
        end loop;
    end if;
end
$$

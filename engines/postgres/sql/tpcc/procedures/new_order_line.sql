-- One line of New-Order by itself; error TB001 when its item is unused.
create function tpcc_new_order_line(
    p_w_id integer, p_d_id integer, p_o_id integer, p_number integer, p_item integer,
    p_supply integer, p_quantity integer,
    out name varchar, out stock_quantity integer, out brand text, out price numeric,
    out amount numeric
) language plpgsql as $$
declare
    dist_info char(24);
begin
    update stock
    set s_quantity = s_quantity - p_quantity
            + case when s_quantity >= p_quantity + 10 then 0 else 91 end,
        s_ytd = s_ytd + p_quantity,
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + case when p_supply = p_w_id then 0 else 1 end
    from item
    where i_id = p_item and s_w_id = p_supply and s_i_id = p_item
    returning i_name, s_quantity,
        case when i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%'
            then 'B' else 'G' end,
        i_price, p_quantity * i_price,
        case p_d_id
            when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
            when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06
            when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09
            else s_dist_10 end
    into name, stock_quantity, brand, price, amount, dist_info;
    if not found then
        raise exception 'item % is not in use', p_item using errcode = 'TB001';
    end if;
    insert into order_line
        (ol_w_id, ol_o_id, ol_d_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
         ol_delivery_d, ol_amount, ol_dist_info)
    values (p_w_id, p_o_id, p_d_id, p_number, p_item, p_supply, p_quantity, null, amount,
        dist_info);
end
$$

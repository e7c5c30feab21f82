-- New-Order (clause 2.4). The order's lines come as one JSON text, [[item, supplying warehouse,
-- quantity], …], and each statement sees to all of them.
--
-- Stock rows are taken in the order of their key, whatever the order of the lines: two orders
-- never wait for each other's. Where an item is ordered twice, its row is changed for the
-- first of its lines, and then in rounds for the others: what is left depends on each before.
--
-- An item that does not exist (clause 2.4.1.5) gives a line less than was ordered, which is
-- noticed when all else is done, and all is rolled back.
--
-- The district comes after the stock: its row is what the others of the district wait for.

create procedure tpcc_new_order(
    in p_w_id int, in p_d_id int, in p_c_id int, in p_ol_cnt int, in p_all_local int,
    in p_lines json
)
sql security invoker
begin
    declare v_o_id, v_taken, v_stored int;
    declare v_round int default 1;
    declare v_now datetime default now();
    declare exit handler for sqlexception begin rollback; resignal; end;

    start transaction;
    update (
        select n, i, w, q
        from json_table(
            p_lines, '$[*]' columns (
                n for ordinality, i int path '$[0]', w int path '$[1]', q int path '$[2]'
            )
        ) as sent
        order by w, i, n
        limit 15
    ) as line straight_join stock on s_w_id = w and s_i_id = i
    set s_ytd = s_ytd + q,
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + (w <> p_w_id),
        s_quantity = if(s_quantity < q + 10, s_quantity - q + 91, s_quantity - q);
    set v_taken = row_count();
    update district set d_next_o_id = last_insert_id(d_next_o_id) + 1
    where d_w_id = p_w_id and d_id = p_d_id;
    set v_o_id = last_insert_id();
    insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (v_o_id, p_d_id, p_w_id, p_c_id, v_now, p_ol_cnt, p_all_local);
    insert into new_order (no_o_id, no_d_id, no_w_id) values (v_o_id, p_d_id, p_w_id);
    insert into order_line (
        ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        ol_dist_info
    )
    select v_o_id, p_d_id, p_w_id, n, i, w, q, i_price * q,
        elt(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
            s_dist_08, s_dist_09, s_dist_10)
    from json_table(
        p_lines, '$[*]' columns (
            n for ordinality, i int path '$[0]', w int path '$[1]', q int path '$[2]'
        )
    ) as line
    straight_join stock on s_w_id = w and s_i_id = i
    straight_join item on i_id = i;
    set v_stored = row_count();
    while v_taken < v_stored do
        set v_round = v_round + 1;
        update (
            select i, w, q, row_number() over (partition by w, i order by n) as time
            from json_table(
                p_lines, '$[*]' columns (
                    n for ordinality, i int path '$[0]', w int path '$[1]', q int path '$[2]'
                )
            ) as sent
        ) as line straight_join stock on s_w_id = w and s_i_id = i
        set s_ytd = s_ytd + q,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (w <> p_w_id),
            s_quantity = if(s_quantity < q + 10, s_quantity - q + 91, s_quantity - q)
        where time = v_round;
        set v_taken = v_taken + row_count();
    end while;

    select straight_join
        if(v_stored = p_ol_cnt, v_o_id, null) as o_id,
        round(
            (
                select sum(ol_amount) from order_line
                where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = v_o_id
            ) * (1 - c_discount) * (1 + w_tax + d_tax) * 100
        ) as total_cents,
        v_o_id as number, c_last, c_credit, c_discount, w_tax, d_tax, v_now as o_entry_d,
        ol_number, ol_supply_w_id, ol_i_id, i_name, ol_quantity, s_quantity,
        if(i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%', 'B', 'G') as brand_generic,
        i_price, ol_amount
    from warehouse, district, customer, order_line, item, stock
    where w_id = p_w_id
        and d_w_id = p_w_id and d_id = p_d_id
        and c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id
        and ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = v_o_id
        and i_id = ol_i_id
        and s_w_id = ol_supply_w_id and s_i_id = ol_i_id
    order by ol_number;
    if v_stored = p_ol_cnt then
        commit;
    else
        rollback;
    end if;
end

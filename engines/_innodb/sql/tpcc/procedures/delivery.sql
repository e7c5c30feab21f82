-- Delivery (clause 2.7): the oldest new order of each of the ten districts, o1 … o10, NULL
-- where a district has none (its delivery is skipped).
--
-- They are found without locks and taken by their deletion: a locking search would lock the
-- gap before each district's oldest as well, which is where the district before it gets its
-- new orders. Whoever finds that another delivery was faster begins again; `retries` says how
-- often.

create procedure tpcc_delivery(in p_w_id int, in p_carrier_id int)
sql security invoker
begin
    declare o1, o2, o3, o4, o5, o6, o7, o8, o9, o10, v_wanted, v_taken int;
    declare v_attempts int default 0;
    declare v_now datetime default now();
    declare exit handler for sqlexception begin rollback; resignal; end;

    repeat
        rollback;
        start transaction;
        set v_attempts = v_attempts + 1;
        select
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 1),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 2),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 3),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 4),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 5),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 6),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 7),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 8),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 9),
            (select min(no_o_id) from new_order where no_w_id = p_w_id and no_d_id = 10)
        into o1, o2, o3, o4, o5, o6, o7, o8, o9, o10;
        set v_wanted = 10 - (o1 is null) - (o2 is null) - (o3 is null) - (o4 is null) - (o5 is null)
            - (o6 is null) - (o7 is null) - (o8 is null) - (o9 is null) - (o10 is null);
        delete from new_order
        where no_w_id = p_w_id and (
            (no_d_id = 1 and no_o_id = o1) or (no_d_id = 2 and no_o_id = o2)
            or (no_d_id = 3 and no_o_id = o3) or (no_d_id = 4 and no_o_id = o4)
            or (no_d_id = 5 and no_o_id = o5) or (no_d_id = 6 and no_o_id = o6)
            or (no_d_id = 7 and no_o_id = o7) or (no_d_id = 8 and no_o_id = o8)
            or (no_d_id = 9 and no_o_id = o9) or (no_d_id = 10 and no_o_id = o10)
        );
        set v_taken = row_count();
    until v_taken = v_wanted end repeat;

    update order_line set ol_delivery_d = v_now
    where ol_w_id = p_w_id and (
        (ol_d_id = 1 and ol_o_id = o1) or (ol_d_id = 2 and ol_o_id = o2)
        or (ol_d_id = 3 and ol_o_id = o3) or (ol_d_id = 4 and ol_o_id = o4)
        or (ol_d_id = 5 and ol_o_id = o5) or (ol_d_id = 6 and ol_o_id = o6)
        or (ol_d_id = 7 and ol_o_id = o7) or (ol_d_id = 8 and ol_o_id = o8)
        or (ol_d_id = 9 and ol_o_id = o9) or (ol_d_id = 10 and ol_o_id = o10)
    );
    update (
        select ol_d_id, ol_o_id, sum(ol_amount) as amount
        from order_line
        where ol_w_id = p_w_id and (
            (ol_d_id = 1 and ol_o_id = o1) or (ol_d_id = 2 and ol_o_id = o2)
            or (ol_d_id = 3 and ol_o_id = o3) or (ol_d_id = 4 and ol_o_id = o4)
            or (ol_d_id = 5 and ol_o_id = o5) or (ol_d_id = 6 and ol_o_id = o6)
            or (ol_d_id = 7 and ol_o_id = o7) or (ol_d_id = 8 and ol_o_id = o8)
            or (ol_d_id = 9 and ol_o_id = o9) or (ol_d_id = 10 and ol_o_id = o10)
        )
        group by ol_d_id, ol_o_id
    ) as delivered
    straight_join orders on o_w_id = p_w_id and o_d_id = ol_d_id and o_id = ol_o_id
    straight_join customer on c_w_id = p_w_id and c_d_id = ol_d_id and c_id = o_c_id
    set o_carrier_id = p_carrier_id, c_balance = c_balance + amount,
        c_delivery_cnt = c_delivery_cnt + 1;
    commit;
    select v_wanted as delivered, concat_ws(',',
        ifnull(o1, 0), ifnull(o2, 0), ifnull(o3, 0), ifnull(o4, 0), ifnull(o5, 0),
        ifnull(o6, 0), ifnull(o7, 0), ifnull(o8, 0), ifnull(o9, 0), ifnull(o10, 0)) as order_ids,
        v_attempts - 1 as retries;
end

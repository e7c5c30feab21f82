-- New-Order (clause 2.4). The order's lines come as fifteen items i1 …, the warehouses w1 …
-- that supply them and their quantities q1 …, NULL behind the last: the stock rows of all of
-- them are then found, updated and read by one statement each, in the order of their key,
-- so that two orders cannot wait for each other's.
--
-- An item that does not exist (clause 2.4.1.5) has no row in stock: a line less is stored
-- than was ordered, and all is rolled back at the end. So has the second line of an item
-- that is ordered twice: it is seen to on its own, after the first one.
--
-- The district comes after the stock: its row is what the others of the district wait for.

create procedure tpcc_new_order(
    in p_w_id int, in p_d_id int, in p_c_id int, in p_ol_cnt int, in p_all_local int,
    in i1 int, in i2 int, in i3 int, in i4 int, in i5 int, in i6 int, in i7 int, in i8 int,
    in i9 int, in i10 int, in i11 int, in i12 int, in i13 int, in i14 int, in i15 int,
    in w1 int, in w2 int, in w3 int, in w4 int, in w5 int, in w6 int, in w7 int, in w8 int,
    in w9 int, in w10 int, in w11 int, in w12 int, in w13 int, in w14 int, in w15 int,
    in q1 int, in q2 int, in q3 int, in q4 int, in q5 int, in q6 int, in q7 int, in q8 int,
    in q9 int, in q10 int, in q11 int, in q12 int, in q13 int, in q14 int, in q15 int
)
sql security invoker
begin
    declare v_o_id, v_stored, v_line, v_item, v_supply, v_quantity int;
    declare v_now datetime default now();
    declare exit handler for sqlexception begin rollback; resignal; end;

    start transaction;
    update stock set
        s_ytd = s_ytd + case
            when s_i_id = i1 and s_w_id = w1 then q1  when s_i_id = i2 and s_w_id = w2 then q2
             when s_i_id = i3 and s_w_id = w3 then q3  when s_i_id = i4 and s_w_id = w4 then q4
             when s_i_id = i5 and s_w_id = w5 then q5  when s_i_id = i6 and s_w_id = w6 then q6
             when s_i_id = i7 and s_w_id = w7 then q7  when s_i_id = i8 and s_w_id = w8 then q8
             when s_i_id = i9 and s_w_id = w9 then q9
             when s_i_id = i10 and s_w_id = w10 then q10
             when s_i_id = i11 and s_w_id = w11 then q11
             when s_i_id = i12 and s_w_id = w12 then q12
             when s_i_id = i13 and s_w_id = w13 then q13
             when s_i_id = i14 and s_w_id = w14 then q14
             when s_i_id = i15 and s_w_id = w15 then q15 end,
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + (s_w_id <> p_w_id),
        s_quantity = s_quantity - case
            when s_i_id = i1 and s_w_id = w1 then q1  when s_i_id = i2 and s_w_id = w2 then q2
             when s_i_id = i3 and s_w_id = w3 then q3  when s_i_id = i4 and s_w_id = w4 then q4
             when s_i_id = i5 and s_w_id = w5 then q5  when s_i_id = i6 and s_w_id = w6 then q6
             when s_i_id = i7 and s_w_id = w7 then q7  when s_i_id = i8 and s_w_id = w8 then q8
             when s_i_id = i9 and s_w_id = w9 then q9
             when s_i_id = i10 and s_w_id = w10 then q10
             when s_i_id = i11 and s_w_id = w11 then q11
             when s_i_id = i12 and s_w_id = w12 then q12
             when s_i_id = i13 and s_w_id = w13 then q13
             when s_i_id = i14 and s_w_id = w14 then q14
             when s_i_id = i15 and s_w_id = w15 then q15 end,
        s_quantity = s_quantity + if(s_quantity < 10, 91, 0)
    where
        (s_w_id = w1 and s_i_id = i1) or (s_w_id = w2 and s_i_id = i2)
        or (s_w_id = w3 and s_i_id = i3) or (s_w_id = w4 and s_i_id = i4)
        or (s_w_id = w5 and s_i_id = i5) or (s_w_id = w6 and s_i_id = i6)
        or (s_w_id = w7 and s_i_id = i7) or (s_w_id = w8 and s_i_id = i8)
        or (s_w_id = w9 and s_i_id = i9) or (s_w_id = w10 and s_i_id = i10)
        or (s_w_id = w11 and s_i_id = i11) or (s_w_id = w12 and s_i_id = i12)
        or (s_w_id = w13 and s_i_id = i13) or (s_w_id = w14 and s_i_id = i14)
        or (s_w_id = w15 and s_i_id = i15);
    update district set d_next_o_id = last_insert_id(d_next_o_id) + 1
    where d_w_id = p_w_id and d_id = p_d_id;
    set v_o_id = last_insert_id();
    insert into order_line (
        ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        ol_dist_info)
    select v_o_id, p_d_id, p_w_id, case
            when s_i_id = i1 and s_w_id = w1 then 1  when s_i_id = i2 and s_w_id = w2 then 2
             when s_i_id = i3 and s_w_id = w3 then 3  when s_i_id = i4 and s_w_id = w4 then 4
             when s_i_id = i5 and s_w_id = w5 then 5  when s_i_id = i6 and s_w_id = w6 then 6
             when s_i_id = i7 and s_w_id = w7 then 7  when s_i_id = i8 and s_w_id = w8 then 8
             when s_i_id = i9 and s_w_id = w9 then 9  when s_i_id = i10 and s_w_id = w10 then 10
             when s_i_id = i11 and s_w_id = w11 then 11
             when s_i_id = i12 and s_w_id = w12 then 12
             when s_i_id = i13 and s_w_id = w13 then 13
             when s_i_id = i14 and s_w_id = w14 then 14
             when s_i_id = i15 and s_w_id = w15 then 15 end,
        s_i_id, s_w_id, case
            when s_i_id = i1 and s_w_id = w1 then q1  when s_i_id = i2 and s_w_id = w2 then q2
             when s_i_id = i3 and s_w_id = w3 then q3  when s_i_id = i4 and s_w_id = w4 then q4
             when s_i_id = i5 and s_w_id = w5 then q5  when s_i_id = i6 and s_w_id = w6 then q6
             when s_i_id = i7 and s_w_id = w7 then q7  when s_i_id = i8 and s_w_id = w8 then q8
             when s_i_id = i9 and s_w_id = w9 then q9
             when s_i_id = i10 and s_w_id = w10 then q10
             when s_i_id = i11 and s_w_id = w11 then q11
             when s_i_id = i12 and s_w_id = w12 then q12
             when s_i_id = i13 and s_w_id = w13 then q13
             when s_i_id = i14 and s_w_id = w14 then q14
             when s_i_id = i15 and s_w_id = w15 then q15 end as quantity,
        i_price * case
            when s_i_id = i1 and s_w_id = w1 then q1  when s_i_id = i2 and s_w_id = w2 then q2
             when s_i_id = i3 and s_w_id = w3 then q3  when s_i_id = i4 and s_w_id = w4 then q4
             when s_i_id = i5 and s_w_id = w5 then q5  when s_i_id = i6 and s_w_id = w6 then q6
             when s_i_id = i7 and s_w_id = w7 then q7  when s_i_id = i8 and s_w_id = w8 then q8
             when s_i_id = i9 and s_w_id = w9 then q9
             when s_i_id = i10 and s_w_id = w10 then q10
             when s_i_id = i11 and s_w_id = w11 then q11
             when s_i_id = i12 and s_w_id = w12 then q12
             when s_i_id = i13 and s_w_id = w13 then q13
             when s_i_id = i14 and s_w_id = w14 then q14
             when s_i_id = i15 and s_w_id = w15 then q15 end,
        elt(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
            s_dist_08, s_dist_09, s_dist_10)
    from stock straight_join item on i_id = s_i_id
    where
        (s_w_id = w1 and s_i_id = i1) or (s_w_id = w2 and s_i_id = i2)
        or (s_w_id = w3 and s_i_id = i3) or (s_w_id = w4 and s_i_id = i4)
        or (s_w_id = w5 and s_i_id = i5) or (s_w_id = w6 and s_i_id = i6)
        or (s_w_id = w7 and s_i_id = i7) or (s_w_id = w8 and s_i_id = i8)
        or (s_w_id = w9 and s_i_id = i9) or (s_w_id = w10 and s_i_id = i10)
        or (s_w_id = w11 and s_i_id = i11) or (s_w_id = w12 and s_i_id = i12)
        or (s_w_id = w13 and s_i_id = i13) or (s_w_id = w14 and s_i_id = i14)
        or (s_w_id = w15 and s_i_id = i15);
    set v_stored = row_count(), v_line = 1;
    while v_stored < p_ol_cnt and v_line < p_ol_cnt do
        set v_line = v_line + 1,
            v_item = elt(v_line,
                i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15),
            v_supply = elt(v_line,
                w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15),
            v_quantity = elt(v_line,
                q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15);
        if case
                when i1 = v_item and w1 = v_supply then 1
                 when i2 = v_item and w2 = v_supply then 2
                 when i3 = v_item and w3 = v_supply then 3
                 when i4 = v_item and w4 = v_supply then 4
                 when i5 = v_item and w5 = v_supply then 5
                 when i6 = v_item and w6 = v_supply then 6
                 when i7 = v_item and w7 = v_supply then 7
                 when i8 = v_item and w8 = v_supply then 8
                 when i9 = v_item and w9 = v_supply then 9
                 when i10 = v_item and w10 = v_supply then 10
                 when i11 = v_item and w11 = v_supply then 11
                 when i12 = v_item and w12 = v_supply then 12
                 when i13 = v_item and w13 = v_supply then 13
                 when i14 = v_item and w14 = v_supply then 14
                 when i15 = v_item and w15 = v_supply then 15 end < v_line then
            update stock set
                s_ytd = s_ytd + v_quantity,
                s_order_cnt = s_order_cnt + 1,
                s_remote_cnt = s_remote_cnt + (s_w_id <> p_w_id),
                s_quantity = s_quantity - v_quantity,
                s_quantity = s_quantity + if(s_quantity < 10, 91, 0)
            where s_w_id = v_supply and s_i_id = v_item;
            insert into order_line (
                ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
                ol_amount, ol_dist_info)
            select v_o_id, p_d_id, p_w_id, v_line, s_i_id, s_w_id, v_quantity,
                i_price * v_quantity,
                elt(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06,
                    s_dist_07, s_dist_08, s_dist_09, s_dist_10)
            from stock straight_join item on i_id = s_i_id
            where s_w_id = v_supply and s_i_id = v_item;
            set v_stored = v_stored + row_count();
        end if;
    end while;
    insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (v_o_id, p_d_id, p_w_id, p_c_id, v_now, p_ol_cnt, p_all_local);
    insert into new_order (no_o_id, no_d_id, no_w_id) values (v_o_id, p_d_id, p_w_id);

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

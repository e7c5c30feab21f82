-- Order-Status (clause 2.6): the customer's newest order, a row for each of its lines.

create procedure tpcc_order_status(
    in p_w_id int, in p_d_id int, in p_c_id int, in p_c_last varchar(16)
)
sql security invoker
begin
    declare v_before, v_o_id int;
    declare v_c_id int default p_c_id;
    declare exit handler for sqlexception begin rollback; resignal; end;

    start transaction read only;
    if p_c_id is null then
        -- The middle one of those with the name, by first name (clause 2.5.2.2).
        select (count(*) + 1) div 2 - 1 into v_before
        from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last;
        select c_id into v_c_id
        from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last
        order by c_first, c_id limit v_before, 1;
    end if;
    select max(o_id) into v_o_id
    from orders where o_w_id = p_w_id and o_d_id = p_d_id and o_c_id = v_c_id;
    select straight_join
        c_id, o_id, c_first, c_middle, c_last, c_balance, o_entry_d, o_carrier_id,
        ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d
    from customer, orders, order_line
    where c_w_id = p_w_id and c_d_id = p_d_id and c_id = v_c_id
        and o_w_id = p_w_id and o_d_id = p_d_id and o_id = v_o_id
        and ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = v_o_id;
    commit;
end

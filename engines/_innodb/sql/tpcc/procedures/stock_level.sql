-- Stock-Level (clause 2.8): the distinct items of the district's last twenty orders of which
-- the warehouse has less than the threshold.

create procedure tpcc_stock_level(in p_w_id int, in p_d_id int, in p_threshold int)
sql security invoker
begin
    declare v_next int;
    declare exit handler for sqlexception begin rollback; resignal; end;

    start transaction read only;
    select d_next_o_id into v_next from district where d_w_id = p_w_id and d_id = p_d_id;
    select count(distinct ol_i_id) as low_stock
    from order_line straight_join stock on s_w_id = p_w_id and s_i_id = ol_i_id
    where ol_w_id = p_w_id and ol_d_id = p_d_id
        and ol_o_id >= v_next - 20 and ol_o_id < v_next
        and s_quantity < p_threshold;
    commit;
end

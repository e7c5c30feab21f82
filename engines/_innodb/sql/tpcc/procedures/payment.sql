-- Payment (clause 2.5). The customer comes first and the warehouse last: its row is what
-- everybody waits for.

create procedure tpcc_payment(
    in p_w_id int, in p_d_id int, in p_c_w_id int, in p_c_d_id int, in p_c_id int,
    in p_c_last varchar(16), in p_amount decimal(6,2)
)
sql security invoker
begin
    declare v_before int;
    declare v_c_id int default p_c_id;
    declare v_now datetime default now();
    declare exit handler for sqlexception begin rollback; resignal; end;

    start transaction;
    if p_c_id is null then
        -- The middle one of those with the name, by first name (clause 2.5.2.2).
        select (count(*) + 1) div 2 - 1 into v_before
        from customer where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = p_c_last;
        select c_id into v_c_id
        from customer where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = p_c_last
        order by c_first, c_id limit v_before, 1;
    end if;
    update customer set
        c_balance = c_balance - p_amount,
        c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = if(
            c_credit = 'BC',
            left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, p_amount, c_data), 500),
            c_data
        )
    where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id;
    if row_count() = 0 then
        signal sqlstate '45000' set message_text = 'no such customer';
    end if;
    update district set d_ytd = d_ytd + p_amount where d_w_id = p_w_id and d_id = p_d_id;
    update warehouse set w_ytd = w_ytd + p_amount where w_id = p_w_id;
    insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    select v_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, v_now, p_amount,
        concat(w_name, '    ', d_name)
    from warehouse, district
    where w_id = p_w_id and d_w_id = p_w_id and d_id = p_d_id;
    select
        c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
        c_since, c_credit, c_credit_lim, c_discount, c_balance,
        if(c_credit = 'BC', left(c_data, 200), '') as c_data,
        w_street_1, w_street_2, w_city, w_state, w_zip,
        d_street_1, d_street_2, d_city, d_state, d_zip, v_now as h_date
    from warehouse, district, customer
    where w_id = p_w_id
        and d_w_id = p_w_id and d_id = p_d_id
        and c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id;
    commit;
end

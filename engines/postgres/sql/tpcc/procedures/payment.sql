-- Payment (clause 2.5.2.2). The customer is locked first and the warehouse, which every
-- Payment to it waits for, last: its row is held for the shortest time.
create function tpcc_payment(
    p_w_id integer, p_d_id integer, p_c_w_id integer, p_c_d_id integer, p_c_id integer,
    p_c_last varchar, p_amount numeric,
    out c_id integer, out c_balance numeric, out h_date timestamp,
    out w_street_1 varchar, out w_street_2 varchar, out w_city varchar, out w_state char(2),
    out w_zip char(9), out d_street_1 varchar, out d_street_2 varchar, out d_city varchar,
    out d_state char(2), out d_zip char(9), out c_first varchar, out c_middle char(2),
    out c_last varchar, out c_street_1 varchar, out c_street_2 varchar, out c_city varchar,
    out c_state char(2), out c_zip char(9), out c_phone char(16), out c_since timestamp,
    out c_credit char(2), out c_credit_lim numeric, out c_discount numeric,
    out c_data varchar
) language plpgsql as $$
#variable_conflict use_column
declare
    v_c_id integer := p_c_id;
    v_w_name varchar;
    v_d_name varchar;
begin
    if v_c_id is null then
        v_c_id := tpcc_customer_named(p_c_w_id, p_c_d_id, p_c_last);
    end if;

    update customer
    set c_balance = c_balance - p_amount,
        c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = case when c_credit = 'BC'
            then left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, p_amount, c_data), 500)
            else c_data end
    where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id
    returning c_id, c_balance, localtimestamp, c_first, c_middle, c_last, c_street_1, c_street_2,
        c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount,
        case when c_credit = 'BC' then left(c_data, 200) end
    into c_id, c_balance, h_date, c_first, c_middle, c_last, c_street_1, c_street_2,
        c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_data;
    if not found then
        raise no_data_found using message = 'no such customer';
    end if;

    update district set d_ytd = d_ytd + p_amount
    where d_w_id = p_w_id and d_id = p_d_id
    returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip
    into strict v_d_name, d_street_1, d_street_2, d_city, d_state, d_zip;

    update warehouse set w_ytd = w_ytd + p_amount
    where w_id = p_w_id
    returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip
    into strict v_w_name, w_street_1, w_street_2, w_city, w_state, w_zip;

    insert into history (h_c_id, h_c_w_id, h_w_id, h_c_d_id, h_d_id, h_date, h_amount, h_data)
    values (v_c_id, p_c_w_id, p_w_id, p_c_d_id, p_d_id, h_date, p_amount,
        v_w_name || '    ' || v_d_name);
end
$$

-- Stock-Level (clause 2.8.2.2): the distinct items of a district's last 20 orders that the
-- home warehouse has fewer of than the threshold. The items are looked up as an array, each
-- once, by the key of stock: whatever the size of the tables, nothing else is planned. Nor is
-- for the orders' lines, whose bounds are selected beforehand: joined to district, once its
-- statistics had counted dead rows, all lines of the district were read.
-- STABLE: everything is read as of one moment.
create function tpcc_stock_level(
    p_w_id integer, p_d_id integer, p_threshold integer, out low_stock integer
) language plpgsql stable as $$
declare
    v_next integer;
begin
    select d_next_o_id into strict v_next from district where d_w_id = p_w_id and d_id = p_d_id;
    select count(*) into low_stock
    from stock
    where s_w_id = p_w_id
        and s_quantity < p_threshold
        and s_i_id = any (array(
            select ol_i_id from order_line
            where ol_w_id = p_w_id and ol_d_id = p_d_id
                and ol_o_id >= v_next - 20 and ol_o_id < v_next
        ));
end
$$

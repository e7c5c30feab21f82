-- Stock-Level (clause 2.8.2.2): the distinct items of a district's last 20 orders that the
-- home warehouse has fewer of than the threshold.
create function tpcc_stock_level(
    p_w_id integer, p_d_id integer, p_threshold integer, out low_stock integer
) language plpgsql stable as $$
declare
    next integer;
begin
    select d_next_o_id into strict next from district where d_w_id = p_w_id and d_id = p_d_id;
    select count(*) into low_stock
    from (
        select distinct ol_i_id from order_line
        where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id >= next - 20 and ol_o_id < next
    ) sold
    join stock on s_w_id = p_w_id and s_i_id = ol_i_id
    where s_quantity < p_threshold;
end
$$

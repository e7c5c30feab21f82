-- Delivery of a warehouse's ten districts (clause 2.7.4.2) in one transaction, as clause
-- 2.7.2.2 allows. A second one for the same warehouse would find its oldest orders taken and skip
-- them although there are others: it waits for the first, and looks when that has ended.
-- Ten orders are no more than ten, which statistics of new_order alone do not tell the planner.
create function tpcc_delivery(
    p_w_id integer, p_carrier_id integer, out delivered integer, out order_ids text
) language plpgsql as $$
begin
    perform pg_advisory_xact_lock(2742, p_w_id);
    with oldest as (
        select d_id, o_id
        from generate_series(1, 10) as d (d_id)
        cross join lateral (
            select no_o_id as o_id from new_order
            where no_w_id = p_w_id and no_d_id = d_id
            order by no_o_id limit 1
        ) first
    ), taken as (
        delete from new_order using oldest
        where no_w_id = p_w_id and no_d_id = d_id and no_o_id = o_id
        returning d_id, o_id
    ), ten as (
        select d_id, o_id from taken limit 10
    ), carried as (
        update orders set o_carrier_id = p_carrier_id
        from ten
        where o_w_id = p_w_id and o_d_id = ten.d_id and orders.o_id = ten.o_id
        returning ten.d_id, o_c_id as c_id
    ), lines as (
        update order_line set ol_delivery_d = localtimestamp
        from ten
        where ol_w_id = p_w_id and ol_d_id = d_id and ol_o_id = o_id
        returning d_id, ol_amount
    ), owed as (
        select carried.d_id, c_id, sum(ol_amount) as amount
        from carried join lines on lines.d_id = carried.d_id
        group by carried.d_id, c_id
        order by carried.d_id
    ), charged as (
        update customer
        set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
        from owed
        where c_w_id = p_w_id and c_d_id = d_id and customer.c_id = owed.c_id
    )
    select count(o_id), string_agg(coalesce(o_id, 0)::text, ',' order by d.d_id)
    into delivered, order_ids
    from generate_series(1, 10) as d (d_id)
    left join ten on ten.d_id = d.d_id;
end
$$

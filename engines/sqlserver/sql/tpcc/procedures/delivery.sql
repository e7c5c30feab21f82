-- Delivery (clause 2.7): the oldest new order of each of the ten districts, 0 where a district has
-- none (its delivery is skipped). UPDLOCK reads the current row, not a version, and keeps it: of
-- two deliveries, the second waits and takes the next order.

create procedure tpcc_delivery @w_id int, @carrier_id int
as
set nocount, xact_abort on;
declare @d_id int = 1, @delivered int = 0, @order_ids varchar(200) = '', @now datetime = getdate();
declare @o_id int, @c_id int, @amount decimal(14,2);

begin transaction;
while @d_id <= 10
begin
    set @o_id = null;
    select top (1) @o_id = no_o_id
    from new_order with (updlock, rowlock)
    where no_w_id = @w_id and no_d_id = @d_id
    order by no_o_id;
    if @o_id is not null
    begin
        delete from new_order where no_w_id = @w_id and no_d_id = @d_id and no_o_id = @o_id;
        update orders set @c_id = o_c_id, o_carrier_id = @carrier_id
        where o_w_id = @w_id and o_d_id = @d_id and o_id = @o_id;
        update order_line set ol_delivery_d = @now
        where ol_w_id = @w_id and ol_d_id = @d_id and ol_o_id = @o_id;
        select @amount = sum(ol_amount) from order_line
        where ol_w_id = @w_id and ol_d_id = @d_id and ol_o_id = @o_id;
        update customer set c_balance = c_balance + @amount, c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = @w_id and c_d_id = @d_id and c_id = @c_id;
        set @delivered = @delivered + 1;
    end;
    set @order_ids = concat(@order_ids, case when @d_id > 1 then ',' end, isnull(@o_id, 0));
    set @d_id = @d_id + 1;
end;
commit;
select @delivered as delivered, @order_ids as order_ids;

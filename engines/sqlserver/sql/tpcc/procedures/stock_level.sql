-- Stock-Level (clause 2.8): the distinct items of the district's last twenty orders of which
-- the warehouse has less than the threshold.

create procedure tpcc_stock_level @w_id int, @d_id int, @threshold int
as
set nocount, xact_abort on;

select count(distinct ol_i_id) as low_stock
from district
join order_line on ol_w_id = @w_id and ol_d_id = @d_id
    and ol_o_id >= d_next_o_id - 20 and ol_o_id < d_next_o_id
join stock on s_w_id = @w_id and s_i_id = ol_i_id
where d_w_id = @w_id and d_id = @d_id and s_quantity < @threshold;

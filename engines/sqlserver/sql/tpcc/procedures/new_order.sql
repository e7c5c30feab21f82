-- New-Order (clause 2.4). Items, supplying warehouses and quantities come as JSON arrays.
--
-- Stock rows are taken in the order of their key, whatever the order of the lines: two orders
-- never wait for each other's. Where an item is ordered twice, its row is changed twice. The
-- district comes after the stock: its row is what the others of the district wait for.
--
-- An item that does not exist (clause 2.4.1.5) has no price. It is noticed when all else is done,
-- and all is rolled back; variables and table variables keep their values then.

create procedure tpcc_new_order
    @w_id int, @d_id int, @c_id int, @ol_cnt int, @all_local int,
    @item_ids varchar(400), @supply_w_ids varchar(400), @quantities varchar(400)
as
set nocount, xact_abort on;
declare @line table (
    k int not null primary key, n int not null, i int not null, w int not null, q int not null,
    stock int, dist char(24), brand char(1), name varchar(24), price decimal(5,2)
);
declare @k int = 1, @i int, @w int, @q int, @o_id int, @priced int, @now datetime = getdate();
declare @stock int, @dist char(24), @s_data varchar(50);
declare @name varchar(24), @price decimal(5,2), @i_data varchar(50);
declare @d_tax decimal(4,4), @w_tax decimal(4,4), @total decimal(16,2);
declare @c_last varchar(16), @c_credit char(2), @c_discount decimal(4,4);

insert into @line (k, n, i, w, q)
select
    row_number() over (order by cast(s.value as int), cast(i.value as int), cast(i.[key] as int)),
    cast(i.[key] as int) + 1, cast(i.value as int), cast(s.value as int), cast(q.value as int)
from openjson(@item_ids) i
join openjson(@supply_w_ids) s on s.[key] = i.[key]
join openjson(@quantities) q on q.[key] = i.[key];

begin transaction;
while @k <= @ol_cnt
begin
    select @i = i, @w = w, @q = q from @line where k = @k;
    select @stock = null, @dist = null, @s_data = null, @name = null, @price = null, @i_data = null;
    select @name = i_name, @price = i_price, @i_data = i_data from item where i_id = @i;
    update stock set
        @stock = s_quantity =
            case when s_quantity < @q + 10 then s_quantity - @q + 91 else s_quantity - @q end,
        s_ytd = s_ytd + @q,
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + case when @w <> @w_id then 1 else 0 end,
        @dist = case @d_id
            when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
            when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06
            when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09
            else s_dist_10
        end,
        @s_data = s_data
    where s_w_id = @w and s_i_id = @i;
    update @line set stock = @stock, dist = @dist, name = @name, price = @price,
        brand = case
            when @i_data like '%ORIGINAL%' and @s_data like '%ORIGINAL%' then 'B' else 'G'
        end
    where k = @k;
    set @k = @k + 1;
end;
update district set @o_id = d_next_o_id, d_next_o_id = d_next_o_id + 1, @d_tax = d_tax
where d_w_id = @w_id and d_id = @d_id;
insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
values (@o_id, @d_id, @w_id, @c_id, @now, @ol_cnt, @all_local);
insert into new_order (no_o_id, no_d_id, no_w_id) values (@o_id, @d_id, @w_id);
insert into order_line (
    ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
    ol_dist_info
)
select @o_id, @d_id, @w_id, n, i, w, q, price * q, dist from @line where price is not null;
select @w_tax = w_tax from warehouse where w_id = @w_id;
select @c_last = c_last, @c_credit = c_credit, @c_discount = c_discount
from customer where c_w_id = @w_id and c_d_id = @d_id and c_id = @c_id;
if @c_discount is null
begin;
    throw 50001, 'no such customer', 1;
end;
select @priced = count(price) from @line;
if @priced = @ol_cnt
    commit;
else
    rollback;
select @total = sum(price * q) * (1 - @c_discount) * (1 + @w_tax + @d_tax) from @line;
select case when @priced = @ol_cnt then @o_id end as o_id, @total as total, @o_id as number,
    @c_last as c_last, @c_credit as c_credit,
    @c_discount as c_discount, @w_tax as w_tax, @d_tax as d_tax, @now as o_entry_d,
    n as ol_number, w as ol_supply_w_id, i as ol_i_id, name as i_name, q as ol_quantity,
    stock as s_quantity, brand as brand_generic, price as i_price, price * q as ol_amount
from @line
order by n;

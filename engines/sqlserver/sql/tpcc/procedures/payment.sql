-- Payment (clause 2.5). The customer comes first and the warehouse last: its row is what
-- everybody waits for.

create procedure tpcc_payment
    @w_id int, @d_id int, @c_w_id int, @c_d_id int, @c_id int, @c_last varchar(16),
    @amount decimal(6,2)
as
set nocount, xact_abort on;
declare @now datetime = getdate();

begin transaction;
if @c_id is null
    -- The middle one of those with the name, by first name (clause 2.5.2.2).
    select @c_id = c_id
    from (
        select c_id, row_number() over (order by c_first, c_id) as n, count(*) over () as total
        from customer where c_w_id = @c_w_id and c_d_id = @c_d_id and c_last = @c_last
    ) named
    where n = (total + 1) / 2;
update customer set
    c_balance = c_balance - @amount,
    c_ytd_payment = c_ytd_payment + @amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = case
        when c_credit = 'BC' then left(
            concat(
                c_id, ' ', c_d_id, ' ', c_w_id, ' ', @d_id, ' ', @w_id, ' ', @amount, ' ', c_data
            ),
            500
        )
        else c_data
    end
where c_w_id = @c_w_id and c_d_id = @c_d_id and c_id = @c_id;
if @@rowcount = 0
begin;
    throw 50001, 'no such customer', 1;
end;
update district set d_ytd = d_ytd + @amount where d_w_id = @w_id and d_id = @d_id;
update warehouse set w_ytd = w_ytd + @amount where w_id = @w_id;
insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
select @c_id, @c_d_id, @c_w_id, @d_id, @w_id, @now, @amount, concat(w_name, '    ', d_name)
from warehouse join district on d_w_id = w_id and d_id = @d_id
where w_id = @w_id;
select c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
    c_since, c_credit, c_credit_lim, c_discount, c_balance,
    case when c_credit = 'BC' then left(c_data, 200) else '' end as c_data,
    w_street_1, w_street_2, w_city, w_state, w_zip,
    d_street_1, d_street_2, d_city, d_state, d_zip, @now as h_date
from warehouse
join district on d_w_id = w_id and d_id = @d_id
join customer on c_w_id = @c_w_id and c_d_id = @c_d_id and c_id = @c_id
where w_id = @w_id;
commit;

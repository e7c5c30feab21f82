-- HammerDB's procedures have OUT and INOUT parameters: variables that are set before and read
-- after the call, here in one message, where HammerDB sends three.
set @next_o_id = 0;
call NEWORD(:w_id, :warehouses, :d_id, :c_id, :ol_cnt, @disc, @last, @credit, @dtax, @wtax, @next_o_id, now());
select @next_o_id, @disc, @last, @credit, @dtax, @wtax

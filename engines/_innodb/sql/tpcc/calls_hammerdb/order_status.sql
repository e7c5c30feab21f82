set @os_c_id = :c_id, @os_c_last = :c_last;
call OSTAT(:w_id, :d_id, @os_c_id, :by_name, @os_c_last, @os_c_first, @os_c_middle, @os_c_balance, @os_o_id, @os_entdate, @os_o_carrier_id);
select @os_c_id, @os_o_id, @os_c_last, @os_c_first, @os_c_middle, @os_c_balance, @os_entdate, @os_o_carrier_id

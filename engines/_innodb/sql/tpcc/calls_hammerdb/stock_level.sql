call SLEV(:w_id, :d_id, :threshold, @stock_count);
select @stock_count

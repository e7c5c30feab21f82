select payment(:w_id, :d_id, :c_w_id, :c_d_id, :c_id, :by_name, :amount, :c_last, '0', 0)

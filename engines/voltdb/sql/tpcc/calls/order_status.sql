OrderStatus (:w_id, :d_id, :c_id, :c_last)

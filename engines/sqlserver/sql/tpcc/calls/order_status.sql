exec tpcc_order_status :w_id, :d_id, :c_id, :c_last

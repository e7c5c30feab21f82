call neword(:w_id, :warehouses, :d_id, :c_id, :ol_cnt, 0.0, '', '', 0.0, 0.0, 0, localtimestamp)

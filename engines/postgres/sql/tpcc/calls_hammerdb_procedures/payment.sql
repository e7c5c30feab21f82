call payment(:w_id, :d_id, :c_w_id, :c_d_id, :by_name, :amount, '0', :c_last, :c_id,
    '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '',
    localtimestamp, 0.0, 0.0, 0.0, '', localtimestamp)

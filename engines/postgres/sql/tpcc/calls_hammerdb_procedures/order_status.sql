call ostat(:w_id, :d_id, :c_id, :by_name, :c_last, '', '', 0.0, 0, localtimestamp, 0, '')

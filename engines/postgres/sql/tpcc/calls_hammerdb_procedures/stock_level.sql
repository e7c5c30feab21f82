call slev(:w_id, :d_id, :threshold, 0)

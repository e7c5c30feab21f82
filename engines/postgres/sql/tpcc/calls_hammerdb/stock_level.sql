select slev(:w_id, :d_id, :threshold)

select delivery(:w_id, :carrier_id)

call DELIVERY(:w_id, :carrier_id, now())

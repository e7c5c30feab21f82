call delivery(:w_id, :carrier_id, localtimestamp)

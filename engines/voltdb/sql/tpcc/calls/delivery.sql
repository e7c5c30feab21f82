Delivery (:w_id, :carrier_id)

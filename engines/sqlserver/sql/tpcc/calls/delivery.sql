exec tpcc_delivery :w_id, :carrier_id

exec tpcc_new_order :w_id, :d_id, :c_id, :ol_cnt, :all_local, :item_ids, :supply_w_ids, :quantities

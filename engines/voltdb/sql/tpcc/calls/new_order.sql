NewOrder when :all_local else NewOrderAcross (:w_id, :d_id, :c_id, :item_ids, :supply_w_ids, :quantities)

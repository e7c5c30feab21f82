call tpcc_new_order(
    :w_id, :d_id, :c_id, :ol_cnt, :all_local,
    :item_ids[1], :item_ids[2], :item_ids[3], :item_ids[4], :item_ids[5], :item_ids[6],
    :item_ids[7], :item_ids[8], :item_ids[9], :item_ids[10], :item_ids[11], :item_ids[12],
    :item_ids[13], :item_ids[14], :item_ids[15],
    :supply_w_ids[1], :supply_w_ids[2], :supply_w_ids[3], :supply_w_ids[4], :supply_w_ids[5],
    :supply_w_ids[6], :supply_w_ids[7], :supply_w_ids[8], :supply_w_ids[9], :supply_w_ids[10],
    :supply_w_ids[11], :supply_w_ids[12], :supply_w_ids[13], :supply_w_ids[14],
    :supply_w_ids[15],
    :quantities[1], :quantities[2], :quantities[3], :quantities[4], :quantities[5],
    :quantities[6], :quantities[7], :quantities[8], :quantities[9], :quantities[10],
    :quantities[11], :quantities[12], :quantities[13], :quantities[14], :quantities[15]
);

StockLevel (:w_id, :d_id, :threshold)

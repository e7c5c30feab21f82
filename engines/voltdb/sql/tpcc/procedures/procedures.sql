-- The Java procedures (java/procedures/): those of one warehouse run in its partition, the two
-- that cross warehouses over all partitions.

create procedure partition on table warehouse column w_id from class tierbench.tpcc.NewOrder;
create procedure from class tierbench.tpcc.NewOrderAcross;
create procedure partition on table warehouse column w_id from class tierbench.tpcc.Payment;
create procedure from class tierbench.tpcc.PaymentAcross;
create procedure partition on table warehouse column w_id from class tierbench.tpcc.OrderStatus;
create procedure partition on table warehouse column w_id from class tierbench.tpcc.Delivery;
create procedure partition on table warehouse column w_id from class tierbench.tpcc.StockLevel;

-- A consistency condition (conditions/10.sql).
create procedure from class tierbench.tpcc.Condition10;

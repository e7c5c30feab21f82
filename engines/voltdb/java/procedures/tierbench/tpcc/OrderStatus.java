package tierbench.tpcc;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;

/** Order-Status (clause 2.6.2.2): a customer's newest order, then its lines. */
public class OrderStatus extends Customers {
    public final SQLStmt newest = new SQLStmt(
            "select o_id, o_entry_d, o_carrier_id from orders"
                    + " where o_w_id = ? and o_d_id = ? and o_c_id = ? order by o_id desc limit 1");
    public final SQLStmt lines = new SQLStmt(
            "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d"
                    + " from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?"
                    + " order by ol_number");

    public VoltTable[] run(int warehouse, long district, long number, String lastName) {
        queueCustomer(warehouse, district, number, lastName);
        VoltTableRow customer = chosen(voltExecuteSQL()[0]);
        long id = customer.getLong("C_ID");
        voltQueueSQL(newest, warehouse, district, id);
        VoltTable order = voltExecuteSQL()[0];
        if (!order.advanceRow()) {
            throw new VoltAbortException("the customer has no order");
        }
        voltQueueSQL(lines, warehouse, district, order.getLong("O_ID"));
        VoltTable shown = new VoltTable(
                new VoltTable.ColumnInfo("C_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("O_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("O_ENTRY_D", VoltType.TIMESTAMP),
                new VoltTable.ColumnInfo("O_CARRIER_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("C_BALANCE", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("C_FIRST", VoltType.STRING),
                new VoltTable.ColumnInfo("C_MIDDLE", VoltType.STRING),
                new VoltTable.ColumnInfo("C_LAST", VoltType.STRING));
        Long carrier = order.getLong("O_CARRIER_ID");
        if (order.wasNull()) {
            carrier = null;
        }
        shown.addRow(id, order.getLong("O_ID"), order.getTimestampAsTimestamp("O_ENTRY_D"),
                carrier, customer.getDecimalAsBigDecimal("C_BALANCE"),
                customer.getString("C_FIRST"), customer.getString("C_MIDDLE"),
                customer.getString("C_LAST"));
        return new VoltTable[] {shown, voltExecuteSQL(true)[0]};
    }
}

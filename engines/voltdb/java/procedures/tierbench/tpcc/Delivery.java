package tierbench.tpcc;

import java.math.BigDecimal;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/**
 * Delivery of the ten districts of a warehouse (clause 2.7.4.2) in one transaction, as clause
 * 2.7.2.2 allows.
 */
public class Delivery extends VoltProcedure {
    private static final int DISTRICTS = 10;

    public final SQLStmt oldest = new SQLStmt(
            "select no_o_id from new_order where no_w_id = ? and no_d_id = ?"
                    + " order by no_o_id limit 1");
    public final SQLStmt customer = new SQLStmt(
            "select o_c_id from orders where o_w_id = ? and o_d_id = ? and o_id = ?");
    public final SQLStmt amount = new SQLStmt(
            "select sum(ol_amount) from order_line"
                    + " where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?");
    public final SQLStmt take = new SQLStmt(
            "delete from new_order where no_w_id = ? and no_d_id = ? and no_o_id = ?");
    public final SQLStmt carry = new SQLStmt(
            "update orders set o_carrier_id = ? where o_w_id = ? and o_d_id = ? and o_id = ?");
    public final SQLStmt deliver = new SQLStmt(
            "update order_line set ol_delivery_d = ?"
                    + " where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?");
    public final SQLStmt charge = new SQLStmt(
            "update customer set c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1"
                    + " where c_w_id = ? and c_d_id = ? and c_id = ?");

    /** How many orders were delivered, and their numbers by district; 0: it has none. */
    public VoltTable[] run(int w, long carrier) {
        for (int d = 1; d <= DISTRICTS; d++) {
            voltQueueSQL(oldest, w, d);
        }
        VoltTable[] found = voltExecuteSQL();
        long[] orders = new long[DISTRICTS];
        int delivered = 0;
        StringBuilder numbers = new StringBuilder();
        for (int i = 0; i < DISTRICTS; i++) {
            if (found[i].advanceRow()) {
                orders[i] = found[i].getLong(0);
                delivered++;
            }
            numbers.append(i == 0 ? "" : ",").append(orders[i]);
        }
        if (delivered > 0) {
            deliver(w, carrier, orders);
        }
        VoltTable shown = new VoltTable(
                new VoltTable.ColumnInfo("DELIVERED", VoltType.BIGINT),
                new VoltTable.ColumnInfo("ORDER_IDS", VoltType.STRING));
        shown.addRow(delivered, numbers.toString());
        return new VoltTable[] {shown};
    }

    private void deliver(long w, long carrier, long[] orders) {
        for (int d = 1; d <= DISTRICTS; d++) {
            if (orders[d - 1] != 0) {
                voltQueueSQL(customer, w, d, orders[d - 1]);
                voltQueueSQL(amount, w, d, orders[d - 1]);
            }
        }
        VoltTable[] found = voltExecuteSQL();
        TimestampType now = new TimestampType(getTransactionTime());
        int next = 0;
        for (int d = 1; d <= DISTRICTS; d++) {
            if (orders[d - 1] != 0) {
                long buyer = found[next++].asScalarLong();
                BigDecimal owed = found[next++].fetchRow(0).getDecimalAsBigDecimal(0);
                voltQueueSQL(take, w, d, orders[d - 1]);
                voltQueueSQL(carry, carrier, w, d, orders[d - 1]);
                voltQueueSQL(deliver, now, w, d, orders[d - 1]);
                voltQueueSQL(charge, owed, w, d, buyer);
            }
        }
        voltExecuteSQL(true);
    }
}

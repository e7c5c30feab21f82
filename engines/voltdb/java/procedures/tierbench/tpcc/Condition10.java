package tierbench.tpcc;

import java.math.BigDecimal;
import java.util.HashMap;
import java.util.Map;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/**
 * Clause 3.3.2.10: customers, four at most, whose balance is not the amount of their delivered
 * order lines less what they have paid. One warehouse after another, over all partitions.
 */
public class Condition10 extends VoltProcedure {
    private static final int SHOWN = 4;

    public final SQLStmt warehouses = new SQLStmt("select w_id from warehouse order by w_id");
    public final SQLStmt owed = new SQLStmt(
            "select c_d_id, c_id, c_balance, sum(ol_amount) from customer"
                    + " left join orders on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id"
                    + " left join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id"
                    + " and ol_o_id = o_id and ol_delivery_d is not null"
                    + " where c_w_id = ? group by c_d_id, c_id, c_balance");
    public final SQLStmt paid = new SQLStmt(
            "select h_c_d_id, h_c_id, sum(h_amount) from history"
                    + " where h_c_w_id = ? group by h_c_d_id, h_c_id");

    public VoltTable[] run() {
        VoltTable wrong = new VoltTable(
                new VoltTable.ColumnInfo("C_W_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("C_D_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("C_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("C_BALANCE", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("SUM_OL_AMOUNT", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("SUM_H_AMOUNT", VoltType.DECIMAL));
        voltQueueSQL(warehouses);
        VoltTable all = voltExecuteSQL()[0];
        while (all.advanceRow() && wrong.getRowCount() < SHOWN) {
            compare(all.getLong(0), wrong);
        }
        return new VoltTable[] {wrong};
    }

    private void compare(long warehouse, VoltTable wrong) {
        voltQueueSQL(owed, warehouse);
        voltQueueSQL(paid, warehouse);
        VoltTable[] found = voltExecuteSQL();
        Map<Long, BigDecimal> payments = new HashMap<>();
        while (found[1].advanceRow()) {
            payments.put(key(found[1]), found[1].getDecimalAsBigDecimal(2));
        }
        while (found[0].advanceRow() && wrong.getRowCount() < SHOWN) {
            BigDecimal balance = found[0].getDecimalAsBigDecimal(2);
            BigDecimal lines = found[0].getDecimalAsBigDecimal(3);
            BigDecimal payment = payments.get(key(found[0]));
            if (balance.compareTo(orZero(lines).subtract(orZero(payment))) != 0) {
                wrong.addRow(warehouse, found[0].getLong(0), found[0].getLong(1), balance, lines,
                        payment);
            }
        }
    }

    private static BigDecimal orZero(BigDecimal amount) {
        return amount == null ? BigDecimal.ZERO : amount;
    }

    /** Of a row that begins with a district and a customer. */
    private static long key(VoltTable row) {
        return row.getLong(0) << 32 | row.getLong(1);
    }
}

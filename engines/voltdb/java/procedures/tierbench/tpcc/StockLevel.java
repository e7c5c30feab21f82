package tierbench.tpcc;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/**
 * Stock-Level (clause 2.8.2.2): the distinct items of a district's last 20 orders that its
 * warehouse has fewer of than the threshold.
 */
public class StockLevel extends VoltProcedure {
    public final SQLStmt next =
            new SQLStmt("select d_next_o_id from district where d_w_id = ? and d_id = ?");
    public final SQLStmt low = new SQLStmt(
            "select count(distinct ol_i_id) as low_stock from order_line, stock"
                    + " where ol_w_id = ? and ol_d_id = ? and ol_o_id >= ? and ol_o_id < ?"
                    + " and s_w_id = ? and s_i_id = ol_i_id and s_quantity < ?");

    public VoltTable[] run(int w, long d, long threshold) {
        voltQueueSQL(next, w, d);
        long end = voltExecuteSQL()[0].asScalarLong();
        voltQueueSQL(low, w, d, end - 20, end, w, threshold);
        return voltExecuteSQL(true);
    }
}

package tierbench.tpcc;

import java.math.BigDecimal;
import java.math.RoundingMode;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/**
 * New-Order (clause 2.4.2.2).
 *
 * <p>One batch reads and one writes. With an unused item, the rest is done all the same (clause
 * 2.4.2.3) and then undone by an abort with the application status {@code TB001}.
 */
public abstract class NewOrders extends VoltProcedure {
    private static final String ORIGINAL = "ORIGINAL";
    private static final int TOTAL_DECIMALS = 8;

    public final SQLStmt warehouse = new SQLStmt("select w_tax from warehouse where w_id = ?");
    public final SQLStmt district =
            new SQLStmt("select d_next_o_id, d_tax from district where d_w_id = ? and d_id = ?");
    public final SQLStmt customer = new SQLStmt(
            "select c_last, c_credit, c_discount from customer"
                    + " where c_w_id = ? and c_d_id = ? and c_id = ?");
    public final SQLStmt item =
            new SQLStmt("select i_price, i_name, i_data from item where i_id = ?");
    public final SQLStmt stock = new SQLStmt(
            "select s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,"
                    + " s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10"
                    + " from stock where s_w_id = ? and s_i_id = ?");
    public final SQLStmt count =
            new SQLStmt("update district set d_next_o_id = ? where d_w_id = ? and d_id = ?");
    public final SQLStmt addOrder = new SQLStmt(
            "insert into orders"
                    + " (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt,"
                    + " o_all_local) values (?, ?, ?, ?, ?, null, ?, ?)");
    public final SQLStmt addNewOrder =
            new SQLStmt("insert into new_order (no_o_id, no_d_id, no_w_id) values (?, ?, ?)");
    public final SQLStmt takeStock = new SQLStmt(
            "update stock set s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,"
                    + " s_remote_cnt = s_remote_cnt + ? where s_w_id = ? and s_i_id = ?");
    public final SQLStmt addLine = new SQLStmt(
            "insert into order_line"
                    + " (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,"
                    + " ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)"
                    + " values (?, ?, ?, ?, ?, ?, null, ?, ?, ?)");

    final VoltTable[] order(long w, long d, long c, int[] items, int[] supplies,
            int[] quantities) {
        VoltTable[] found = read(w, d, c, items, supplies);
        VoltTableRow home = row(found[0], "warehouse");
        VoltTableRow place = row(found[1], "district");
        VoltTableRow buyer = row(found[2], "customer");
        long id = place.getLong("D_NEXT_O_ID");
        TimestampType now = new TimestampType(getTransactionTime());
        voltQueueSQL(count, id + 1, w, d);
        voltQueueSQL(addOrder, id, d, w, c, now, items.length, allLocal(w, supplies));
        voltQueueSQL(addNewOrder, id, d, w);

        VoltTable lines = lines();
        BigDecimal sum = BigDecimal.ZERO;
        long[] left = new long[items.length];
        int unused = -1;
        for (int i = 0; i < items.length; i++) {
            if (found[3 + 2 * i].getRowCount() == 0) {
                unused = items[i];
                continue;
            }
            VoltTableRow sold = found[3 + 2 * i].fetchRow(0);
            VoltTableRow stored = row(found[4 + 2 * i], "stock");
            int before = sameStock(items, supplies, i);
            long there = before < 0 ? stored.getLong("S_QUANTITY") : left[before];
            left[i] = there - quantities[i] + (there >= quantities[i] + 10 ? 0 : 91);
            BigDecimal price = sold.getDecimalAsBigDecimal("I_PRICE");
            BigDecimal amount = price.multiply(BigDecimal.valueOf(quantities[i]))
                    .setScale(2, RoundingMode.HALF_UP);
            sum = sum.add(amount);
            voltQueueSQL(takeStock, left[i], quantities[i], supplies[i] == w ? 0 : 1, supplies[i],
                    items[i]);
            voltQueueSQL(addLine, id, d, w, i + 1, items[i], supplies[i], quantities[i], amount,
                    stored.getString((int) d + 1));
            lines.addRow(i + 1, supplies[i], items[i], sold.getString("I_NAME"), quantities[i],
                    left[i], brand(sold, stored), price, amount);
        }
        voltExecuteSQL(true);
        if (unused >= 0) {
            setAppStatusString("TB001");
            throw new VoltAbortException("item " + unused + " is not in use");
        }
        return new VoltTable[] {head(id, now, sum, home, place, buyer), lines};
    }

    /** Of warehouse, district and customer, then an item and its stock for each line. */
    private VoltTable[] read(long w, long d, long c, int[] items, int[] supplies) {
        voltQueueSQL(warehouse, w);
        voltQueueSQL(district, w, d);
        voltQueueSQL(customer, w, d, c);
        for (int i = 0; i < items.length; i++) {
            voltQueueSQL(item, items[i]);
            voltQueueSQL(stock, supplies[i], items[i]);
        }
        return voltExecuteSQL();
    }

    private static VoltTableRow row(VoltTable found, String what) {
        if (found.getRowCount() == 0) {
            throw new VoltAbortException("no such " + what);
        }
        return found.fetchRow(0);
    }

    private static int allLocal(long w, int[] supplies) {
        for (int supply : supplies) {
            if (supply != w) {
                return 0;
            }
        }
        return 1;
    }

    /** The last line before {@code line} that took from the same stock; -1 without one. */
    private static int sameStock(int[] items, int[] supplies, int line) {
        for (int i = line - 1; i >= 0; i--) {
            if (items[i] == items[line] && supplies[i] == supplies[line]) {
                return i;
            }
        }
        return -1;
    }

    private static String brand(VoltTableRow sold, VoltTableRow stored) {
        return sold.getString("I_DATA").contains(ORIGINAL)
                && stored.getString("S_DATA").contains(ORIGINAL) ? "B" : "G";
    }

    private static VoltTable lines() {
        return new VoltTable(
                new VoltTable.ColumnInfo("OL_NUMBER", VoltType.BIGINT),
                new VoltTable.ColumnInfo("OL_SUPPLY_W_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("OL_I_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("I_NAME", VoltType.STRING),
                new VoltTable.ColumnInfo("OL_QUANTITY", VoltType.BIGINT),
                new VoltTable.ColumnInfo("S_QUANTITY", VoltType.BIGINT),
                new VoltTable.ColumnInfo("BRAND_GENERIC", VoltType.STRING),
                new VoltTable.ColumnInfo("I_PRICE", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("OL_AMOUNT", VoltType.DECIMAL));
    }

    private static VoltTable head(long id, TimestampType now, BigDecimal sum, VoltTableRow home,
            VoltTableRow place, VoltTableRow buyer) {
        BigDecimal discount = buyer.getDecimalAsBigDecimal("C_DISCOUNT");
        BigDecimal warehouseTax = home.getDecimalAsBigDecimal("W_TAX");
        BigDecimal districtTax = place.getDecimalAsBigDecimal("D_TAX");
        BigDecimal total = sum.multiply(BigDecimal.ONE.subtract(discount))
                .multiply(BigDecimal.ONE.add(warehouseTax).add(districtTax))
                .setScale(TOTAL_DECIMALS, RoundingMode.HALF_UP);
        VoltTable head = new VoltTable(
                new VoltTable.ColumnInfo("O_ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("TOTAL_AMOUNT", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("O_ENTRY_D", VoltType.TIMESTAMP),
                new VoltTable.ColumnInfo("C_LAST", VoltType.STRING),
                new VoltTable.ColumnInfo("C_CREDIT", VoltType.STRING),
                new VoltTable.ColumnInfo("C_DISCOUNT", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("W_TAX", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("D_TAX", VoltType.DECIMAL));
        head.addRow(id, total, now, buyer.getString("C_LAST"), buyer.getString("C_CREDIT"),
                discount, warehouseTax, districtTax);
        return head;
    }
}

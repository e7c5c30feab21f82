package tierbench.tpcc;

import java.math.BigDecimal;
import java.math.RoundingMode;
import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/** Payment (clause 2.5.2.2). */
public abstract class Payments extends Customers {
    private static final int DATA_CHARACTERS = 500, SHOWN_CHARACTERS = 200;

    public final SQLStmt warehouse = new SQLStmt(
            "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip from warehouse"
                    + " where w_id = ?");
    public final SQLStmt district = new SQLStmt(
            "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip from district"
                    + " where d_w_id = ? and d_id = ?");
    public final SQLStmt payWarehouse =
            new SQLStmt("update warehouse set w_ytd = w_ytd + ? where w_id = ?");
    public final SQLStmt payDistrict =
            new SQLStmt("update district set d_ytd = d_ytd + ? where d_w_id = ? and d_id = ?");
    public final SQLStmt payCustomer = new SQLStmt(
            "update customer set c_balance = ?, c_ytd_payment = c_ytd_payment + ?,"
                    + " c_payment_cnt = c_payment_cnt + 1, c_data = ?"
                    + " where c_w_id = ? and c_d_id = ? and c_id = ?");
    public final SQLStmt history = new SQLStmt(
            "insert into history"
                    + " (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)"
                    + " values (?, ?, ?, ?, ?, ?, ?, ?)");

    final VoltTable[] pay(long w, long d, long customerW, long customerD, long number,
            String lastName, BigDecimal given) {
        BigDecimal amount = given.setScale(2, RoundingMode.HALF_UP);
        voltQueueSQL(warehouse, w);
        voltQueueSQL(district, w, d);
        queueCustomer(customerW, customerD, number, lastName);
        VoltTable[] found = voltExecuteSQL();
        VoltTableRow payee = found[0].fetchRow(0);
        VoltTableRow payeeDistrict = found[1].fetchRow(0);
        VoltTableRow customer = chosen(found[2]);

        long id = customer.getLong("C_ID");
        boolean badCredit = customer.getString("C_CREDIT").equals("BC");
        String data = customer.getString("C_DATA");
        if (badCredit) {
            data = cut(id + " " + customerD + " " + customerW + " " + d + " " + w + " "
                    + amount.toPlainString() + " " + data, DATA_CHARACTERS);
        }
        BigDecimal balance = customer.getDecimalAsBigDecimal("C_BALANCE").subtract(amount);
        TimestampType now = new TimestampType(getTransactionTime());
        voltQueueSQL(payWarehouse, amount, w);
        voltQueueSQL(payDistrict, amount, w, d);
        voltQueueSQL(payCustomer, balance, amount, data, customerW, customerD, id);
        voltQueueSQL(history, id, customerD, customerW, d, w, now, amount,
                payee.getString("W_NAME") + "    " + payeeDistrict.getString("D_NAME"));
        voltExecuteSQL(true);
        return new VoltTable[] {shown(payee, payeeDistrict, customer, balance, now,
                badCredit ? cut(data, SHOWN_CHARACTERS) : null)};
    }

    private static VoltTable shown(VoltTableRow warehouse, VoltTableRow district,
            VoltTableRow customer, BigDecimal balance, TimestampType now, String data) {
        VoltTable shown = new VoltTable(
                column("C_ID", VoltType.BIGINT), column("C_BALANCE", VoltType.DECIMAL),
                column("H_DATE", VoltType.TIMESTAMP),
                text("W_STREET_1"), text("W_STREET_2"), text("W_CITY"), text("W_STATE"),
                text("W_ZIP"),
                text("D_STREET_1"), text("D_STREET_2"), text("D_CITY"), text("D_STATE"),
                text("D_ZIP"),
                text("C_FIRST"), text("C_MIDDLE"), text("C_LAST"),
                text("C_STREET_1"), text("C_STREET_2"), text("C_CITY"), text("C_STATE"),
                text("C_ZIP"), text("C_PHONE"), column("C_SINCE", VoltType.TIMESTAMP),
                text("C_CREDIT"), column("C_CREDIT_LIM", VoltType.DECIMAL),
                column("C_DISCOUNT", VoltType.DECIMAL), text("C_DATA"));
        shown.addRow(customer.getLong("C_ID"), balance, now,
                warehouse.getString("W_STREET_1"), warehouse.getString("W_STREET_2"),
                warehouse.getString("W_CITY"), warehouse.getString("W_STATE"),
                warehouse.getString("W_ZIP"),
                district.getString("D_STREET_1"), district.getString("D_STREET_2"),
                district.getString("D_CITY"), district.getString("D_STATE"),
                district.getString("D_ZIP"),
                customer.getString("C_FIRST"), customer.getString("C_MIDDLE"),
                customer.getString("C_LAST"),
                customer.getString("C_STREET_1"), customer.getString("C_STREET_2"),
                customer.getString("C_CITY"), customer.getString("C_STATE"),
                customer.getString("C_ZIP"), customer.getString("C_PHONE"),
                customer.getTimestampAsTimestamp("C_SINCE"), customer.getString("C_CREDIT"),
                customer.getDecimalAsBigDecimal("C_CREDIT_LIM"),
                customer.getDecimalAsBigDecimal("C_DISCOUNT"), data);
        return shown;
    }

    private static VoltTable.ColumnInfo column(String name, VoltType type) {
        return new VoltTable.ColumnInfo(name, type);
    }

    private static VoltTable.ColumnInfo text(String name) {
        return column(name, VoltType.STRING);
    }

    private static String cut(String text, int characters) {
        return text.length() > characters ? text.substring(0, characters) : text;
    }
}

package tierbench.tpcc;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;

/** Transactions that find a customer by number or by last name. */
public abstract class Customers extends VoltProcedure {
    static final String COLUMNS =
            "c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,"
                    + " c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_data"
                    + " from customer where c_w_id = ? and c_d_id = ?";

    public final SQLStmt customerByNumber = new SQLStmt("select " + COLUMNS + " and c_id = ?");
    public final SQLStmt customersByName =
            new SQLStmt("select " + COLUMNS + " and c_last = ? order by c_first, c_id");

    /** Queue the query for a customer; {@code number} is NULL for one by last name. */
    final void queueCustomer(long warehouse, long district, long number, String lastName) {
        if (number == VoltType.NULL_BIGINT) {
            voltQueueSQL(customersByName, warehouse, district, lastName);
        } else {
            voltQueueSQL(customerByNumber, warehouse, district, number);
        }
    }

    /** Of n customers the one at n/2 rounded up (clauses 2.5.2.2 and 2.6.2.2). */
    static VoltTableRow chosen(VoltTable customers) {
        int count = customers.getRowCount();
        if (count == 0) {
            throw new VoltAbortException("no such customer");
        }
        return customers.fetchRow((count + 1) / 2 - 1);
    }
}

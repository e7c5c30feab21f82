package tierbench.tpcc;

import org.voltdb.VoltTable;

/** New-Order whose items all come from its own warehouse: in that warehouse's partition alone. */
public class NewOrder extends NewOrders {
    public VoltTable[] run(int warehouse, long district, long customer, int[] items,
            int[] supplies, int[] quantities) {
        return order(warehouse, district, customer, items, supplies, quantities);
    }
}

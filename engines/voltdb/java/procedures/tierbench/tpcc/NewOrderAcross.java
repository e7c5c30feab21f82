package tierbench.tpcc;

import org.voltdb.VoltTable;

/** New-Order with items of another warehouse: over all partitions. */
public class NewOrderAcross extends NewOrders {
    public VoltTable[] run(int warehouse, long district, long customer, int[] items,
            int[] supplies, int[] quantities) {
        return order(warehouse, district, customer, items, supplies, quantities);
    }
}

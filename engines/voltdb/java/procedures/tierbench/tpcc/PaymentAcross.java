package tierbench.tpcc;

import java.math.BigDecimal;
import org.voltdb.VoltTable;

/** Payment of a customer of another warehouse: over all partitions. */
public class PaymentAcross extends Payments {
    public VoltTable[] run(int warehouse, long district, long customerWarehouse,
            long customerDistrict, long customer, String lastName, BigDecimal amount) {
        return pay(warehouse, district, customerWarehouse, customerDistrict, customer, lastName,
                amount);
    }
}

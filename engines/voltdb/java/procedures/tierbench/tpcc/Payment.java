package tierbench.tpcc;

import java.math.BigDecimal;
import org.voltdb.VoltTable;

/** Payment of a customer of the same warehouse: in that warehouse's partition alone. */
public class Payment extends Payments {
    public VoltTable[] run(int warehouse, long district, long customerWarehouse,
            long customerDistrict, long customer, String lastName, BigDecimal amount) {
        return pay(warehouse, district, customerWarehouse, customerDistrict, customer, lastName,
                amount);
    }
}

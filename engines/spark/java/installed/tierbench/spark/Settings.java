package tierbench.spark;

import org.apache.spark.internal.config.ConfigEntry;
import org.apache.spark.sql.internal.SQLConf;

/** Prints, for each {@code name=value}, a line where Spark has no such setting or refuses the value. */
public final class Settings {
    /** Families of settings that users may add to. */
    private static final String[] OPEN = {"spark.hadoop.", "spark.executorEnv.", "spark.yarn.",
            "spark.kubernetes.", "spark.sql.catalog.", "spark.hive.", "spark.ssl.", "spark.rpc."};

    private Settings() {}

    public static void main(String[] settings) {
        SQLConf.get();  // registers those of SQL
        org.apache.spark.internal.config.package$.MODULE$.DRIVER_MEMORY();  // and all others
        for (String setting : settings) {
            String name = setting.substring(0, setting.indexOf('='));
            ConfigEntry<?> entry = ConfigEntry.findEntry(name);
            if (entry == null) {
                if (!inOpenFamily(name)) {
                    System.out.println(name + ": no such setting");
                }
                continue;
            }
            try {
                entry.valueConverter().apply(setting.substring(name.length() + 1));
            } catch (RuntimeException error) {
                System.out.println(String.valueOf(error.getMessage()).lines().findFirst().get());
            }
        }
    }

    private static boolean inOpenFamily(String name) {
        for (String family : OPEN) {
            if (name.startsWith(family)) {
                return true;
            }
        }
        return false;
    }
}

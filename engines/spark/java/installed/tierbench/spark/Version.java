package tierbench.spark;

import java.io.InputStream;
import java.util.Properties;
import org.apache.spark.launcher.JavaModuleOptions;

/** Prints release and build of the Spark on the class path and of Java, then Java's options. */
public final class Version {
    private Version() {}

    public static void main(String[] arguments) throws Exception {
        Properties build = new Properties();
        try (InputStream text = Version.class.getResourceAsStream("/spark-version-info.properties")) {
            build.load(text);
        }
        System.out.println("Spark " + build.getProperty("version") + " "
                + build.getProperty("revision") + ", Java " + System.getProperty("java.version"));
        System.out.println(JavaModuleOptions.defaultModuleOptions());
    }
}

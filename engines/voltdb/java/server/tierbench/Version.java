package tierbench;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Prints the release and build of the VoltDB on the class path, and the release of Java. */
public final class Version {
    private Version() {}

    public static void main(String[] arguments) throws Exception {
        Class.forName("org.voltdb.VoltDB", false, Version.class.getClassLoader());
        try (InputStream build = Version.class.getResourceAsStream("/buildstring.txt");
                BufferedReader text = new BufferedReader(
                        new InputStreamReader(build, StandardCharsets.UTF_8))) {
            System.out.println("VoltDB " + text.readLine().trim() + ", Java "
                    + System.getProperty("java.version"));
        }
    }
}

import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Properties;

/** Names and values of a property file, in hexadecimal UTF-16, as Java reads them. */
public final class Told {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileInputStream file = new FileInputStream(arguments[0])) {
      properties.load(file);
    }
    for (String name : properties.stringPropertyNames()) {
      System.out.println(hex(name) + " " + hex(properties.getProperty(name)));
    }
  }

  private static String hex(String text) {
    return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
  }
}

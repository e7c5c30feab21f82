import java.io.FileReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * `java ScannedOrder PROPERTIES FIRST KEY…` stores a record under each of the keys, scans from FIRST
 * on, and prints how many it found.
 */
public final class ScannedOrder {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileReader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    properties.setProperty("fieldcount", "1");
    DB db = (DB) Class.forName(properties.getProperty("db")).getConstructor().newInstance();
    db.setProperties(properties);
    db.init();
    for (int i = 2; i < arguments.length; i++) {
      Map<String, ByteIterator> record = new HashMap<>();
      record.put("field0", new StringByteIterator("value"));
      Status status = db.insert("usertable", arguments[i], record);
      if (!status.isOk()) {
        throw new IllegalStateException(status.toString());
      }
    }
    Vector<HashMap<String, ByteIterator>> found = new Vector<>();
    db.scan("usertable", arguments[1], arguments.length, null, found);
    System.out.println(found.size());
    db.cleanup();
  }
}

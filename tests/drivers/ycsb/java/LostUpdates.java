import java.io.FileReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * Threads that update one record, each a field of its own, by counting it up: `java LostUpdates
 * PROPERTIES THREADS UPDATES` prints the fields' values at the end, which are UPDATES everywhere
 * unless an update undid another thread's.
 */
public final class LostUpdates {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileReader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    int threads = Integer.parseInt(arguments[1]);
    int updates = Integer.parseInt(arguments[2]);
    properties.setProperty("fieldcount", String.valueOf(threads));
    List<DB> connections = new ArrayList<>();
    for (int i = 0; i <= threads; i++) {
      DB db = (DB) Class.forName(properties.getProperty("db")).getConstructor().newInstance();
      db.setProperties(properties);
      db.init();
      connections.add(db);
    }
    DB mine = connections.get(threads);
    Map<String, ByteIterator> record = new HashMap<>();
    for (int i = 0; i < threads; i++) {
      record.put("field" + i, new StringByteIterator("0"));
    }
    expect(mine.insert("usertable", "user1", record));
    List<Thread> running = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      String field = "field" + i;
      DB db = connections.get(i);
      Thread thread = new Thread(() -> {
        for (int n = 1; n <= updates; n++) {
          ByteIterator value = new StringByteIterator(String.valueOf(n));
          expect(db.update("usertable", "user1", new HashMap<>(Map.of(field, value))));
        }
      });
      running.add(thread);
      thread.start();
    }
    for (Thread thread : running) {
      thread.join();
    }
    Map<String, ByteIterator> found = new HashMap<>();
    expect(mine.read("usertable", "user1", null, found));
    for (int i = 0; i < threads; i++) {
      System.out.println(found.get("field" + i));
    }
    for (DB db : connections) {
      db.cleanup();
    }
  }

  private static void expect(Status status) {
    if (!status.isOk()) {
      throw new IllegalStateException(status.toString());
    }
  }
}

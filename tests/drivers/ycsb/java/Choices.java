import java.io.FileReader;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * The keys that the official core workload chooses: `java Choices PROPERTIES OPERATIONS N` prints
 * how often the N most frequent were chosen ("user42 17"), the keys that were inserted
 * ("inserted user43"), and how many choices there were in all ("choices 1000").
 */
public final class Choices extends DB {
  private final Map<String, Integer> counts = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileReader file = new FileReader(arguments[0])) {
      properties.load(file);
    }
    Measurements.setProperties(properties);
    CoreWorkload workload = new CoreWorkload();
    workload.init(properties);
    Choices chosen = new Choices();
    for (int i = Integer.parseInt(arguments[1]); i > 0; i--) {
      workload.doTransaction(chosen, null);
    }
    int total = chosen.counts.values().stream().mapToInt(Integer::intValue).sum();
    System.out.println("choices " + total);
    chosen.counts.entrySet().stream()
        .sorted(Collections.reverseOrder(Map.Entry.comparingByValue()))
        .limit(Integer.parseInt(arguments[2]))
        .forEach(one -> System.out.println(one.getKey() + " " + one.getValue()));
  }

  private Status count(String key) {
    counts.merge(key, 1, Integer::sum);
    return Status.OK;
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> to) {
    return count(key);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return count(key);
  }

  @Override
  public Status scan(
      String table, String key, int length, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> to) {
    return count(key);
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    System.out.println("inserted " + key);
    return Status.OK;
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }
}

package tierbench.ycsb;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * RocksDB for the official client: one open database in the process, one object of this class for
 * each of its threads. Properties: see {@link Opened}, and
 *
 * <ul>
 *   <li>{@code rocksdb.update}: {@code read-modify-write} reads the record, changes the fields and
 *       writes it, alone on its key; {@code blind} writes the record that it is given, which must
 *       be a whole one.
 *   <li>{@code rocksdb.sync}, {@code rocksdb.disable_wal}: of every write.
 * </ul>
 */
public final class RocksDbBinding extends DB {
  /** Locks for the keys of updates; two keys may share one. */
  private static final int STRIPES = 4096;

  private static final Object[] LOCKS = new Object[STRIPES];

  static {
    for (int i = 0; i < STRIPES; i++) {
      LOCKS[i] = new Object();
    }
  }

  private Opened opened;
  private Records records;
  private boolean blind;
  private ReadOptions reading;
  private WriteOptions writing;

  /** The database is opened with the first thread's properties: before the client's clock runs. */
  @Override
  public void setProperties(Properties properties) {
    super.setProperties(properties);
    records = new Records(properties);
    blind = blind(properties.getProperty("rocksdb.update", "read-modify-write"));
    opened = Opened.share(properties);
    // As the native client reads: whatever the prefix extractor, scans go through all keys.
    reading = new ReadOptions().setTotalOrderSeek(true);
    writing = new WriteOptions();
    writing.setSync(Boolean.parseBoolean(properties.getProperty("rocksdb.sync")));
    writing.setDisableWAL(Boolean.parseBoolean(properties.getProperty("rocksdb.disable_wal")));
  }

  @Override
  public void cleanup() {
    reading.close();
    writing.close();
    opened.release();
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    try {
      byte[] record = opened.database().get(reading, bytes(key));
      if (record == null) {
        return Status.NOT_FOUND;
      }
      records.decode(record, fields, result);
      return Status.OK;
    } catch (RocksDBException | IllegalArgumentException e) {
      return failed("read", e);
    }
  }

  @Override
  public Status scan(
      String table, String first, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    try (RocksIterator rows = opened.database().newIterator(reading)) {
      int found = 0;
      for (rows.seek(bytes(first)); rows.isValid() && found < count; rows.next()) {
        HashMap<String, ByteIterator> row = new HashMap<>();
        records.decode(rows.value(), fields, row);
        result.add(row);
        found++;
      }
      rows.status();
      return found == 0 ? Status.NOT_FOUND : Status.OK;
    } catch (RocksDBException | IllegalArgumentException e) {
      return failed("scan", e);
    }
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    byte[] keyBytes = bytes(key);
    try {
      if (blind) {
        return records.whole(values)
            ? put(keyBytes, records.encode(values))
            : failed("update", new IllegalArgumentException("a blind update of single fields"));
      }
      synchronized (LOCKS[Math.floorMod(key.hashCode(), STRIPES)]) {
        byte[] record = opened.database().get(reading, keyBytes);
        return record == null
            ? Status.NOT_FOUND
            : put(keyBytes, records.changed(record, values));
      }
    } catch (RocksDBException | IllegalArgumentException e) {
      return failed("update", e);
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    try {
      return put(bytes(key), records.encode(values));
    } catch (RocksDBException | IllegalArgumentException e) {
      return failed("insert", e);
    }
  }

  @Override
  public Status delete(String table, String key) {
    try {
      opened.database().delete(writing, bytes(key));
      return Status.OK;
    } catch (RocksDBException e) {
      return failed("delete", e);
    }
  }

  private Status put(byte[] key, byte[] record) throws RocksDBException {
    opened.database().put(writing, key, record);
    return Status.OK;
  }

  private static Status failed(String operation, Exception cause) {
    Console.failed(operation, cause);
    return Status.ERROR;
  }

  private static boolean blind(String update) {
    switch (update) {
      case "blind":
        return true;
      case "read-modify-write":
        return false;
      default:
        throw new IllegalArgumentException("rocksdb.update=" + update);
    }
  }

  private static byte[] bytes(String key) {
    return key.getBytes(StandardCharsets.UTF_8);
  }
}

package tierbench.ycsb;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * Engines that speak SQL, for the official client: a connection for each of its threads.
 *
 * <ul>
 *   <li>{@code jdbc.url}; {@code jdbc.with.NAME}: the driver's properties, user and password among
 *       them; {@code jdbc.socket}: a unix socket that takes the place of host and port.
 *   <li>{@code call.OPERATION}, or {@code call.OPERATION.I} for field I: the statement of an
 *       operation, the native client's own. Values are named in it: {@code :key}, {@code :value}
 *       (the one field that is written), {@code :field0} …, {@code :length}.
 *   <li>{@code tierbench.loading}: many inserts a transaction; otherwise each is one.
 * </ul>
 *
 * What the server undoes because of others (a deadlock) is repeated and reported.
 */
public final class JdbcBinding extends DB {
  private static final String WITH = "jdbc.with.";
  private static final String KEY_COLUMN = "ycsb_key";
  private static final int LOAD_BATCH = 1000;
  private static final int MOST_TRIES = 100;

  private Connection connection;
  private Calls calls;
  private int batch;
  private int batched;

  /** Connected with the properties at hand: before the client's clock runs. */
  @Override
  public void setProperties(Properties properties) {
    super.setProperties(properties);
    String socket = properties.getProperty("jdbc.socket");
    if (socket != null) {
      UnixSocketFactory.path(socket);
    }
    Properties with = new Properties();
    for (String name : properties.stringPropertyNames()) {
      if (name.startsWith(WITH)) {
        with.setProperty(name.substring(WITH.length()), properties.getProperty(name));
      }
    }
    batch = Boolean.parseBoolean(properties.getProperty("tierbench.loading")) ? LOAD_BATCH : 0;
    try {
      connection = DriverManager.getConnection(properties.getProperty("jdbc.url"), with);
      connection.setAutoCommit(batch == 0);
      calls = new Calls(connection, properties);
    } catch (SQLException e) {
      Console.failed("connect to " + properties.getProperty("jdbc.url"), e);
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void cleanup() {
    try {
      flush();
      connection.close();
    } catch (SQLException e) {
      Console.failed("end", e);
    }
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return attempt("read", () -> {
      Call call = calls.of("read", fields);
      call.bind(Map.of("key", key));
      try (ResultSet rows = call.statement().executeQuery()) {
        if (!rows.next()) {
          return Status.NOT_FOUND;
        }
        take(call, rows, fields, result);
        return Status.OK;
      }
    });
  }

  @Override
  public Status scan(
      String table, String first, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return attempt("scan", () -> {
      result.clear();
      Call call = calls.of("scan", fields);
      call.bind(Map.of("key", first, "length", count));
      try (ResultSet rows = call.statement().executeQuery()) {
        while (rows.next()) {
          HashMap<String, ByteIterator> row = new HashMap<>();
          take(call, rows, fields, row);
          result.add(row);
        }
      }
      return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
    });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    Map<String, Object> named = named(key, values);
    return attempt("update", () -> {
      Call call = calls.of("update", values.keySet());
      call.bind(named);
      return call.statement().executeUpdate() == 0 ? Status.NOT_FOUND : Status.OK;
    });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    Map<String, Object> named = named(key, values);
    return attempt("insert", () -> {
      Call call = calls.of("insert", null);
      call.bind(named);
      if (batch == 0) {
        call.statement().executeUpdate();
        return Status.OK;
      }
      call.statement().addBatch();
      if (++batched == batch) {
        flush();
      }
      return Status.BATCHED_OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }

  private void flush() throws SQLException {
    if (batched > 0) {
      calls.of("insert", null).statement().executeBatch();
      connection.commit();
      batched = 0;
    }
  }

  /** Values are read once: the client's iterators are spent by that. */
  private static Map<String, Object> named(String key, Map<String, ByteIterator> values) {
    Map<String, Object> named = new HashMap<>();
    named.put("key", key);
    values.forEach((name, value) -> named.put(name, value.toString()));
    if (values.size() == 1) {
      named.put("value", named.get(values.keySet().iterator().next()));
    }
    return named;
  }

  private static void take(
      Call call, ResultSet row, Set<String> wanted, Map<String, ByteIterator> result)
      throws SQLException {
    String[] columns = call.columns();
    for (int i = 0; i < columns.length; i++) {
      String name = columns[i];
      if (!name.equals(KEY_COLUMN) && (wanted == null || wanted.contains(name))) {
        String value = row.getString(i + 1);
        if (value != null) {
          result.put(name, new StringByteIterator(value));
        }
      }
    }
  }

  private interface Attempt {
    Status make() throws SQLException;
  }

  private Status attempt(String operation, Attempt attempt) {
    for (int tries = 1; ; tries++) {
      try {
        return attempt.make();
      } catch (SQLException e) {
        String state = e.getSQLState() == null ? "" : e.getSQLState();
        boolean undone = state.startsWith("40") || e.getErrorCode() == 1205;
        if (!undone || batch > 0 || tries == MOST_TRIES) {
          Console.failed(operation, e);
          return Status.ERROR;
        }
        Console.tell("retried", operation + " " + state);
      }
    }
  }
}

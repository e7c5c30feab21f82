package tierbench.ycsb;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/** The statements of one connection, prepared when they are first called. */
final class Calls {
  private final Connection connection;
  private final Properties texts;
  private final Map<String, Call> prepared = new HashMap<>();

  Calls(Connection connection, Properties texts) {
    this.connection = connection;
    this.texts = texts;
  }

  /** Of an operation on these fields; null: on all. */
  Call of(String operation, Set<String> fields) throws SQLException {
    String whole = "call." + operation;
    String name = texts.containsKey(whole) ? whole : whole + "." + number(operation, fields);
    Call call = prepared.get(name);
    if (call == null) {
      String text = texts.getProperty(name);
      if (text == null) {
        throw new SQLException("no statement " + name);
      }
      call = new Call(connection, text);
      prepared.put(name, call);
    }
    return call;
  }

  private static String number(String operation, Set<String> fields) throws SQLException {
    if (fields == null || fields.size() != 1) {
      throw new SQLException(operation + " has one statement a field, not for " + fields);
    }
    return fields.iterator().next().replaceAll("\\D+", "");
  }
}

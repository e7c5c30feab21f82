package tierbench.ycsb;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A prepared statement whose values have names. */
final class Call {
  private static final Pattern NAME = Pattern.compile("(?<!:):([a-z]+[0-9]*)");

  private final List<String> names = new ArrayList<>();
  private final PreparedStatement statement;
  private String[] columns;

  Call(Connection connection, String text) throws SQLException {
    Matcher found = NAME.matcher(text);
    while (found.find()) {
      names.add(found.group(1));
    }
    statement = connection.prepareStatement(NAME.matcher(text).replaceAll("?"));
  }

  PreparedStatement statement() {
    return statement;
  }

  void bind(Map<String, Object> values) throws SQLException {
    for (int i = 0; i < names.size(); i++) {
      Object value = values.get(names.get(i));
      if (value == null) {
        throw new SQLException("no value for :" + names.get(i));
      }
      if (value instanceof Integer) {
        statement.setInt(i + 1, (Integer) value);
      } else {
        statement.setString(i + 1, value.toString());
      }
    }
  }

  /** Names of the columns of its rows, as the workload has them. */
  String[] columns() throws SQLException {
    if (columns == null) {
      ResultSetMetaData rows = statement.getMetaData();
      columns = new String[rows.getColumnCount()];
      for (int i = 0; i < columns.length; i++) {
        columns[i] = rows.getColumnLabel(i + 1).toLowerCase(Locale.ROOT);
      }
    }
    return columns;
  }
}

package tierbench.ycsb;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.ConfigOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.DbPath;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Statistics;
import org.rocksdb.StatsLevel;

/**
 * The process's one open database, shared by all threads, closed by the last of them.
 *
 * <ul>
 *   <li>{@code rocksdb.directory}; {@code rocksdb.wal_directory}, where it is another one.
 *   <li>{@code rocksdb.db_paths.0}, {@code rocksdb.db_paths.0.bytes} and on: where tables lie.
 *   <li>{@code rocksdb.option.NAME}: an option string as RocksDB's own parser takes it, of the
 *       database or of its column family.
 *   <li>{@code rocksdb.create}: make the database where there is none.
 *   <li>{@code rocksdb.statistics}: count.
 *   <li>{@code rocksdb.flush}: write what is in memory to tables before it is closed.
 * </ul>
 */
final class Opened {
  private static final String OPTION = "rocksdb.option.";

  private static Opened shared;

  private final List<ColumnFamilyHandle> handles = new ArrayList<>();
  private final DBOptions options;
  private final ColumnFamilyOptions family;
  private final Statistics statistics;
  private final boolean flush;
  private final RocksDB database;
  private int users;

  private Opened(Properties properties) throws RocksDBException {
    Properties forDatabase = new Properties();
    Properties forFamily = new Properties();
    sort(properties, forDatabase, forFamily);
    options = forDatabase.isEmpty() ? new DBOptions() : DBOptions.getDBOptionsFromProps(forDatabase);
    family =
        forFamily.isEmpty()
            ? new ColumnFamilyOptions()
            : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(forFamily);
    options.setCreateIfMissing(is(properties, "rocksdb.create"));
    String wal = properties.getProperty("rocksdb.wal_directory");
    if (wal != null) {
      options.setWalDir(wal);
    }
    List<DbPath> paths = paths(properties);
    if (!paths.isEmpty()) {
      options.setDbPaths(paths);
    }
    statistics = is(properties, "rocksdb.statistics") ? new Statistics() : null;
    if (statistics != null) {
      statistics.setStatsLevel(StatsLevel.EXCEPT_DETAILED_TIMERS);
      options.setStatistics(statistics);
    }
    flush = is(properties, "rocksdb.flush");
    database =
        RocksDB.open(
            options, properties.getProperty("rocksdb.directory"),
            List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family)), handles);
    Console.counters(this::counters);
  }

  /** The open database, one user more. */
  static synchronized Opened share(Properties properties) {
    if (shared == null) {
      try {
        shared = new Opened(properties);
      } catch (RocksDBException e) {
        Console.failed("open " + properties.getProperty("rocksdb.directory"), e);
        throw new IllegalStateException(e);
      }
    }
    shared.users++;
    return shared;
  }

  RocksDB database() {
    return database;
  }

  /** One user less; the last one closes it. */
  void release() {
    synchronized (Opened.class) {
      if (--users > 0) {
        return;
      }
      Console.counters(null);
      shared = null;
      try (FlushOptions all = new FlushOptions().setWaitForFlush(true)) {
        if (flush) {
          database.flush(all);
        }
        handles.forEach(ColumnFamilyHandle::close);
        database.closeE();
      } catch (RocksDBException e) {
        Console.failed("close", e);
      }
      family.close();
      options.close();
    }
  }

  /** Each option is the database's or the family's; one that neither takes is refused. */
  private static void sort(Properties all, Properties forDatabase, Properties forFamily) {
    try (ConfigOptions strict = new ConfigOptions().setIgnoreUnknownOptions(false)) {
      for (String name : all.stringPropertyNames()) {
        if (!name.startsWith(OPTION)) {
          continue;
        }
        Properties one = new Properties();
        one.setProperty(name.substring(OPTION.length()), all.getProperty(name));
        try (DBOptions asDatabase = DBOptions.getDBOptionsFromProps(strict, one);
            ColumnFamilyOptions asFamily =
                ColumnFamilyOptions.getColumnFamilyOptionsFromProps(strict, one)) {
          if (asDatabase != null) {
            forDatabase.putAll(one);
          } else if (asFamily != null) {
            forFamily.putAll(one);
          } else {
            Console.failed("open", "RocksDB takes no option " + one);
            throw new IllegalArgumentException(one.toString());
          }
        }
      }
    }
  }

  private static List<DbPath> paths(Properties properties) {
    List<DbPath> paths = new ArrayList<>();
    String path;
    while ((path = properties.getProperty("rocksdb.db_paths." + paths.size())) != null) {
      String bytes = properties.getProperty("rocksdb.db_paths." + paths.size() + ".bytes");
      paths.add(new DbPath(Path.of(path), Long.parseLong(bytes)));
    }
    return paths;
  }

  private static boolean is(Properties properties, String name) {
    return Boolean.parseBoolean(properties.getProperty(name));
  }

  /** RocksDB's own words on its tickers and its levels. */
  private String counters() {
    synchronized (Opened.class) {
      try {
        return shared != this
            ? "{}"
            : "{\"statistics\": " + quoted(statistics == null ? "" : statistics.toString())
                + ", \"levelstats\": " + quoted(database.getProperty("rocksdb.levelstats"))
                + ", \"stats\": " + quoted(database.getProperty("rocksdb.stats"))
                + "}";
      } catch (RocksDBException e) {
        return "{}";
      }
    }
  }

  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ') {
        json.append(String.format("\\u%04x", (int) c));
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }
}

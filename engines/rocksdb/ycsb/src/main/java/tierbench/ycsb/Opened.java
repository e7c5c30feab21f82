package tierbench.ycsb;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.rocksdb.Cache;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Statistics;
import org.rocksdb.StatsLevel;

/**
 * The process's one open database, shared by all threads, closed by the last of them.
 *
 * <ul>
 *   <li>{@code rocksdb.directory}, {@code rocksdb.wal_directory}.
 *   <li>{@code rocksdb.db_option.NAME}, {@code rocksdb.cf_option.NAME}: option strings as
 *       RocksDB's own parser takes them, of the database and of its column family.
 *   <li>{@code rocksdb.row_cache_bytes}: of whole rows; 0: none.
 *   <li>{@code rocksdb.create}: make the database where there is none.
 *   <li>{@code rocksdb.statistics}: keep tickers.
 *   <li>{@code tierbench.loading}: in the end everything is written to tables, and no compaction
 *       is due.
 * </ul>
 */
final class Opened {
  /** Of these, those that are not 0 while RocksDB has background work to do. */
  private static final String[] AT_WORK = {
    "rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending", "rocksdb.num-running-compactions",
  };

  /**
   * The cache is cut into as many shards as its size wants, and half of it is for rows that were
   * found again: as RocksDB's C interface makes one, and other than Java's own defaults.
   */
  private static final int SHARD_BITS = -1;

  private static final double FOUND_AGAIN_SHARE = 0.5;
  private static final double LOW_PRIORITY_SHARE = 0;

  private static final int QUIET_POLLS = 5;
  private static final long POLL_MS = 20;

  private static Opened shared;

  private final List<ColumnFamilyHandle> handles = new ArrayList<>();
  private final DBOptions options;
  private final ColumnFamilyOptions family;
  private final Cache rowCache;
  private final Statistics statistics;
  private final boolean settle;
  private String last = "{}";
  private final RocksDB database;
  private int users;

  private Opened(Properties properties) throws RocksDBException {
    RocksDB.loadLibrary();
    Properties forDatabase = options(properties, "rocksdb.db_option.");
    Properties forFamily = options(properties, "rocksdb.cf_option.");
    options = forDatabase.isEmpty() ? new DBOptions() : DBOptions.getDBOptionsFromProps(forDatabase);
    family =
        forFamily.isEmpty()
            ? new ColumnFamilyOptions()
            : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(forFamily);
    if (options == null || family == null) {
      throw new RocksDBException("it does not take these options: " + forDatabase + forFamily);
    }
    options.setCreateIfMissing(is(properties, "rocksdb.create"));
    options.setWalDir(properties.getProperty("rocksdb.wal_directory"));
    rowCache = rowCache(Long.parseLong(properties.getProperty("rocksdb.row_cache_bytes", "0")));
    if (rowCache != null) {
      options.setRowCache(rowCache);
    }
    statistics = is(properties, "rocksdb.statistics") ? new Statistics() : null;
    if (statistics != null) {
      statistics.setStatsLevel(StatsLevel.EXCEPT_DETAILED_TIMERS);
      options.setStatistics(statistics);
    }
    settle = is(properties, "tierbench.loading");
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
      shared = null;
      try (FlushOptions all = new FlushOptions().setWaitForFlush(true)) {
        if (settle) {
          database.flush(all);
          awaitCompactions();
        }
        checkBackground();
        last = report();
        handles.forEach(ColumnFamilyHandle::close);
        database.closeE();
      } catch (RocksDBException e) {
        Console.failed("close", e);
      }
      family.close();
      options.close();
      if (rowCache != null) {
        rowCache.close();
      }
    }
  }

  /** Null: none. */
  private static Cache rowCache(long bytes) {
    return bytes > 0
        ? new LRUCache(bytes, SHARD_BITS, false, FOUND_AGAIN_SHARE, LOW_PRIORITY_SHARE)
        : null;
  }

  /** Option strings of one kind, as RocksDB's own parser takes them. */
  private static Properties options(Properties all, String prefix) {
    Properties found = new Properties();
    for (String name : all.stringPropertyNames()) {
      if (name.startsWith(prefix)) {
        found.setProperty(name.substring(prefix.length()), all.getProperty(name));
      }
    }
    return found;
  }

  private static boolean is(Properties properties, String name) {
    return Boolean.parseBoolean(properties.getProperty(name));
  }

  /** RocksDB's own words on its tickers and its levels; of a closed one the last. */
  private String counters() {
    synchronized (Opened.class) {
      return users == 0 ? last : report();
    }
  }

  private String report() {
    try {
      checkBackground();
      return "{\"tickers\": " + quoted(statistics == null ? "" : statistics.toString())
          + ", \"pending_compaction_bytes\": "
          + database.getLongProperty("rocksdb.estimate-pending-compaction-bytes")
          + ", \"levels\": " + quoted(database.getProperty("rocksdb.levelstats"))
          + ", \"statistics\": " + quoted(database.getProperty("rocksdb.stats")) + "}";
    } catch (RocksDBException e) {
      Console.failed("ask RocksDB", e);
      return "{}";
    }
  }

  /** Errors of background work, which no call reports while writes are accepted. */
  private void checkBackground() throws RocksDBException {
    long errors = database.getLongProperty("rocksdb.background-errors");
    if (errors > 0) {
      Console.failed("flush and compact", errors + " errors, listed in RocksDB's LOG file");
    }
  }

  private void awaitCompactions() throws RocksDBException {
    try {
      for (int quiet = 0; quiet < QUIET_POLLS; ) {
        Thread.sleep(POLL_MS);
        long work = 0;
        for (String property : AT_WORK) {
          work += database.getLongProperty(property);
        }
        checkBackground();
        quiet = work > 0 ? 0 : quiet + 1;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
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

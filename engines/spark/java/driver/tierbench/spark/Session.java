package tierbench.spark;

import java.sql.Date;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/** One connection and its thread, which executes statements in order. */
final class Session {
    private static final long LOOK_MS = 500;

    private final ExecutorService thread;
    private final Driver driver;
    private final SparkSession spark;
    private final String name;
    private long statements;
    /** The statement under way, as Spark knows it, and why it is to end; guarded by this. */
    private String group;
    private String cancelled;

    Session(Driver driver, SparkSession spark, long number) {
        this.driver = driver;
        this.spark = spark;
        this.name = "connection " + number;
        this.thread = Executors.newSingleThreadExecutor(work -> new Thread(work, name));
    }

    void submit(Map<String, Object> request) {
        thread.submit(() -> driver.answer(request, () -> execute(request)));
    }

    /** End the statement under way. */
    synchronized void cancel(String why) {
        if (group != null) {
            cancelled = why;
            spark.sparkContext().cancelJobGroupAndFutureJobs(group, why);
        }
    }

    void close() {
        cancel("closed");
        thread.shutdown();
    }

    private Map<String, Object> execute(Map<String, Object> request) throws Exception {
        begin();
        Number limit = (Number) request.get("limit_s");
        List<ScheduledFuture<?>> watches = new ArrayList<>();
        try {
            if (limit != null) {
                long ms = Math.max(1, (long) (limit.doubleValue() * 1000));
                watches.add(driver.timer.schedule(
                        () -> cancel("timeout"), ms, TimeUnit.MILLISECONDS));
            }
            long begunNs = System.nanoTime();
            watches.add(driver.timer.scheduleWithFixedDelay(
                    () -> endWithoutExecutors(begunNs), LOOK_MS, LOOK_MS, TimeUnit.MILLISECONDS));
            Number keep = (Number) request.get("keep");
            return run((String) request.get("sql"), request.get("op").equals("explain"),
                    keep == null ? Integer.MAX_VALUE : keep.intValue());
        } catch (Exception error) {
            if (spark.sparkContext().isStopped()) {
                System.exit(1);  // the log says why
            }
            String why = cancelled();
            if ("timeout".equals(why)) {
                if (!driver.hasExecutors()) {
                    throw new IllegalStateException(driver.whyWithoutExecutors());
                }
                return Map.of("timeout", true);
            }
            throw why == null ? error : new IllegalStateException(why, error);
        } finally {
            watches.forEach(watch -> watch.cancel(false));
            end();
        }
    }

    private Map<String, Object> run(String sql, boolean explained, int keep) throws Exception {
        long started = System.nanoTime();
        Dataset<Row> result = spark.sql(sql);
        List<Row> rows = result.collectAsList();
        long duration = System.nanoTime() - started;
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("started_ns", started);
        answer.put("duration_ns", duration);
        if (explained) {
            answer.put("plan", Plans.of(result.queryExecution()));
            return answer;
        }
        answer.put("columns", result.columns());
        List<Object> encoded = new ArrayList<>(Math.min(keep, rows.size()));
        long checksum = 0;
        for (Row row : rows) {
            Object[] values = new Object[row.size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = encode(row.get(i));
            }
            if (encoded.size() < keep) {
                encoded.add(values);
            }
            if (keep < Integer.MAX_VALUE) {
                CRC32 crc = new CRC32();
                crc.update(driver.json.writeValueAsBytes(values));
                checksum += crc.getValue() * crc.getValue();
            }
        }
        answer.put("rows", encoded);
        answer.put("left_out", rows.size() - encoded.size());
        answer.put("checksum", Long.toUnsignedString(checksum));
        return answer;
    }

    private synchronized void begin() {
        group = name + ", statement " + ++statements;
        cancelled = null;
        spark.sparkContext().setJobGroup(group, group, true);
    }

    private synchronized String cancelled() {
        return cancelled;
    }

    private synchronized void end() {
        group = null;
        spark.sparkContext().clearJobGroup();
    }

    private void endWithoutExecutors(long begunNs) {
        if (driver.withoutExecutors(begunNs)) {
            cancel(driver.whyWithoutExecutors());
        }
    }

    /** As harness.sql_values does. */
    private static Object encode(Object value) {
        if (value == null || value instanceof String || value instanceof Boolean
                || value instanceof Integer || value instanceof Long || value instanceof Short
                || value instanceof Byte) {
            return value;
        }
        if (value instanceof Double || value instanceof Float) {
            return Map.of("f", Double.toHexString(((Number) value).doubleValue()));
        }
        if (value instanceof java.math.BigDecimal) {
            return Map.of("n", ((java.math.BigDecimal) value).toPlainString());
        }
        if (value instanceof Date || value instanceof LocalDate) {
            return Map.of("d", value.toString());
        }
        if (value instanceof Timestamp) {
            return Map.of("t", ((Timestamp) value).toLocalDateTime().toString());
        }
        if (value instanceof LocalDateTime) {
            return Map.of("t", value.toString());
        }
        if (value instanceof byte[]) {
            return Map.of("s", "\\x" + HexFormat.of().formatHex((byte[]) value));
        }
        return Map.of("s", value.toString());
    }
}

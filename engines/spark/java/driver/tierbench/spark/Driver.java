package tierbench.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.classic.SparkSession;
import scala.Tuple2;

/**
 * Spark's driver: one JSON request a line on stdin, answers on stdout, in any order.
 *
 * <p>Its configuration comes with the first request, so that no secret is in a command line. It
 * ends with stdin.
 */
public final class Driver {
    private static final long DRAIN_MS = 10_000;
    private static final int LONGEST_ERROR = 4_000;

    final ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);
    final ObjectMapper json = new ObjectMapper();
    private final PrintStream answers;
    private final Map<Long, Session> sessions = new HashMap<>();
    private final Tasks tasks = new Tasks();
    private SparkSession spark;
    private long withoutExecutorsNs;
    private long lastExecutorNs;
    private boolean local;

    private Driver(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        int status = new Driver(answers).serve();
        System.exit(status);
    }

    private int serve() throws Exception {
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            @SuppressWarnings("unchecked")
            Map<String, Object> request = json.readValue(line, Map.class);
            String operation = (String) request.get("op");
            switch (operation) {
                case "execute", "explain" -> session(request).submit(request);
                case "cancel" -> answer(request, () -> {
                    session(request).cancel("cancelled");
                    return Map.of();
                });
                case "close" -> answer(request, () -> {
                    Session session = sessions.remove(number(request));
                    if (session != null) {
                        session.close();
                    }
                    return Map.of();
                });
                default -> {
                    boolean fine = answer(request, () -> perform(operation, request));
                    if (operation.equals("shutdown") || operation.equals("open") && !fine) {
                        return fine ? 0 : 1;
                    }
                }
            }
        }
        return 0;
    }

    private Map<String, Object> perform(String operation, Map<String, Object> request)
            throws Exception {
        return switch (operation) {
            case "open" -> open(request);
            case "counters" -> {
                spark.sparkContext().listenerBus().waitUntilEmpty(DRAIN_MS);
                yield Map.of("counters", tasks.sums());
            }
            case "configuration" -> Map.of("configuration", configuration());
            case "copy" -> copy(request);
            case "size" -> Map.of("bytes", files(request).getContentSummary(path(request))
                    .getLength());
            case "read" -> read(request);
            case "write" -> write(request);
            case "remove" -> Map.of("removed", files(request).delete(path(request), true));
            case "list" -> list(request);
            case "shutdown" -> {
                sessions.values().forEach(Session::close);
                spark.stop();
                yield Map.of();
            }
            default -> throw new IllegalArgumentException("no such request: " + operation);
        };
    }

    private Map<String, Object> open(Map<String, Object> request) throws Exception {
        SparkConf conf = new SparkConf(false);
        ((Map<?, ?>) request.get("conf")).forEach((name, value) ->
                conf.set((String) name, (String) value));
        local = conf.get("spark.master").startsWith("local");
        withoutExecutorsNs = ((Number) request.get("without_executors_s")).longValue()
                * 1_000_000_000L;
        spark = SparkSession.builder().config(conf).getOrCreate();
        spark.sparkContext().addSparkListener(tasks);
        return Map.of("application", spark.sparkContext().applicationId());
    }

    private Session session(Map<String, Object> request) {
        return sessions.computeIfAbsent(
                number(request), number -> new Session(this, spark.newSession(), number));
    }

    private static Long number(Map<String, Object> request) {
        return ((Number) request.get("connection")).longValue();
    }

    /** Whether there is an executor now; the driver's own of a local master counts. */
    boolean hasExecutors() {
        return local || spark.sparkContext().statusTracker().getExecutorInfos().length > 1;
    }

    /**
     * Whether a statement under way since then has had no executor for too long a time, after all
     * were lost; until the first one has registered, only the statement's own limit holds.
     */
    synchronized boolean withoutExecutors(long sinceNs) {
        long now = System.nanoTime();
        if (hasExecutors()) {
            lastExecutorNs = now;
        }
        return tasks.lastLoss() != null
                && now - Math.max(lastExecutorNs, sinceNs) > withoutExecutorsNs;
    }

    /** Why there is no executor. */
    String whyWithoutExecutors() {
        String loss = tasks.lastLoss();
        return "no executor of the cluster "
                + (loss == null ? "has registered" : "is left: " + loss);
    }

    private Map<String, String> configuration() {
        Map<String, String> found = new TreeMap<>();
        for (Tuple2<String, String> entry : spark.sparkContext().getConf().getAll()) {
            found.put(entry._1(), entry._2());
        }
        return found;
    }

    // Files of Hadoop's file systems -----------------------------------------------------

    private FileSystem files(Map<String, Object> request) throws Exception {
        return path(request).getFileSystem(spark.sparkContext().hadoopConfiguration());
    }

    private static Path path(Map<String, Object> request) {
        return new Path((String) request.get("path"));
    }

    private Map<String, Object> copy(Map<String, Object> request) throws Exception {
        FileSystem there = files(request);
        there.mkdirs(path(request));
        for (Object file : (List<?>) request.get("files")) {
            there.copyFromLocalFile(false, true, new Path("file://" + file), path(request));
        }
        return Map.of();
    }

    private Map<String, Object> read(Map<String, Object> request) throws Exception {
        FileSystem there = files(request);
        if (!there.exists(path(request))) {
            return Map.of();
        }
        try (var stream = there.open(path(request))) {
            return Map.of("text", new String(stream.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    private Map<String, Object> write(Map<String, Object> request) throws Exception {
        boolean replace = (Boolean) request.get("replace");
        try (FSDataOutputStream stream = files(request).create(path(request), replace)) {
            stream.write(((String) request.get("text")).getBytes(StandardCharsets.UTF_8));
        }
        return Map.of();
    }

    private Map<String, Object> list(Map<String, Object> request) throws Exception {
        FileSystem there = files(request);
        if (!there.exists(path(request))) {
            return Map.of();
        }
        FileStatus[] found = there.listStatus(path(request));
        String[] names = new String[found.length];
        for (int i = 0; i < found.length; i++) {
            names[i] = found[i].getPath().getName();
        }
        return Map.of("names", names);
    }

    // Answers -----------------------------------------------------------------------------

    /** Answer with what {@code work} returns, or with its error; whether it had none. */
    boolean answer(Map<String, Object> request, Callable<Map<String, Object>> work) {
        Map<String, Object> document = new HashMap<>();
        boolean fine = true;
        try {
            document.putAll(work.call());
        } catch (Throwable error) {
            fine = false;
            document.put("error", shortened(error));
        }
        document.put("id", request.get("id"));
        try {
            byte[] line = (json.writeValueAsString(document) + "\n").getBytes(StandardCharsets.UTF_8);
            synchronized (answers) {
                answers.write(line, 0, line.length);
                answers.flush();
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        return fine;
    }

    private static String shortened(Throwable error) {
        String text = error instanceof AnalysisException analysis
                ? analysis.getSimpleMessage()  // without the plan
                : String.valueOf(error.getMessage() == null ? error : error.getMessage());
        int stack = text.indexOf("\n\tat ");
        text = stack < 0 ? text : text.substring(0, stack);
        return text.length() <= LONGEST_ERROR ? text : text.substring(0, LONGEST_ERROR) + " …";
    }
}

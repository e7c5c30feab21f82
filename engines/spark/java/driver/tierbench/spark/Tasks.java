package tierbench.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/** Sums of what Spark reports of tasks as they end, failed ones too, and the last lost executor. */
final class Tasks extends SparkListener {
    private final Map<String, Long> sums = new TreeMap<>();
    private String lastLoss;
    private int atWork;
    private long atWorkSinceMs;

    @Override
    public synchronized void onTaskStart(SparkListenerTaskStart start) {
        if (atWork++ == 0) {
            atWorkSinceMs = start.taskInfo().launchTime();
        }
    }

    @Override
    public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
        if (--atWork == 0) {
            add("spark_tasks_at_work_ns",
                    (end.taskInfo().finishTime() - atWorkSinceMs) * 1_000_000);
        }
        add("spark_tasks_count", 1);
        add("spark_failed_tasks_count", end.taskInfo().successful() ? 0 : 1);
        TaskMetrics task = end.taskMetrics();
        if (task == null) {
            return;
        }
        add("spilled_bytes", task.diskBytesSpilled());
        add("shuffle_written_bytes", task.shuffleWriteMetrics().bytesWritten());
        add("shuffle_read_bytes", task.shuffleReadMetrics().totalBytesRead());
        add("spark_input_bytes", task.inputMetrics().bytesRead());
        add("spark_gc_ns", task.jvmGCTime() * 1_000_000);
    }

    @Override
    public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
        lastLoss = "executor " + removed.executorId() + " was lost: " + removed.reason();
    }

    /** The last loss of an executor; null where none has been lost. */
    synchronized String lastLoss() {
        return lastLoss;
    }

    synchronized Map<String, Long> sums() {
        for (String name : new String[] {"spark_tasks_count", "spark_failed_tasks_count",
                "spilled_bytes", "shuffle_written_bytes", "shuffle_read_bytes",
                "spark_input_bytes", "spark_gc_ns", "spark_tasks_at_work_ns"}) {
            add(name, 0);
        }
        return new TreeMap<>(sums);
    }

    private void add(String name, long value) {
        sums.merge(name, value, Long::sum);
    }
}

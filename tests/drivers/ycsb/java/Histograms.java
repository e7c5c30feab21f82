import java.io.PrintStream;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;
import org.HdrHistogram.Recorder;

/**
 * Histogram logs as the client writes them: `java Histograms PROPERTIES FILE` records every value
 * from 0 to 4999 in a first interval, nothing in a second, and 1, 60000000 and 2 in a third, and
 * prints how HdrHistogram itself sees all of them.
 */
public final class Histograms {
  public static void main(String[] arguments) throws Exception {
    Recorder recorder = new Recorder(3);
    Histogram all = new Histogram(3);
    try (PrintStream file = new PrintStream(arguments[1])) {
      HistogramLogWriter log = new HistogramLogWriter(file);
      log.outputComment("[Logging for: READ]");
      log.outputLogFormatVersion();
      log.outputStartTime(1_000_000);
      log.setBaseTime(1_000_000);
      log.outputLegend();
      for (int i = 0; i < 5000; i++) {
        recorder.recordValue(i);
      }
      all.add(write(recorder, log, 1_000_000, 1_001_000));
      all.add(write(recorder, log, 1_001_000, 1_002_500));
      recorder.recordValue(1);
      recorder.recordValue(60_000_000);
      recorder.recordValue(2);
      all.add(write(recorder, log, 1_002_500, 1_003_000));
    }
    System.out.println(all.getTotalCount());
    for (double percentile : new double[] {1, 50, 90, 99, 99.9}) {
      System.out.println(percentile + " " + all.getValueAtPercentile(percentile));
    }
  }

  private static Histogram write(Recorder from, HistogramLogWriter to, long begin, long end) {
    Histogram interval = from.getIntervalHistogram();
    interval.setStartTimeStamp(begin);
    interval.setEndTimeStamp(end);
    to.outputIntervalHistogram(interval);
    return interval;
  }
}

package tierbench.ycsb;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * What passes between the harness and the client in addition to the client's own words.
 *
 * <p>The harness writes a name on a line of stdin and gets both clocks and the engine's counters
 * of that moment under this name, the latter where the binding has some. A client that has done its work stays until its
 * stdin ends: what a process has used up is reported by the kernel only while it exists.
 * Everything is said on stderr, in lines that begin with {@code tierbench:}.
 */
public final class Console {
  private static final String MARK = "tierbench: ";
  /** The number of failures that are printed; later ones add nothing new. */
  private static final int MOST_FAILURES = 20;

  private static final long CLOSE_NS = 1_000_000;
  private static final int MOST_READINGS = 1000;

  private static final CountDownLatch STDIN_ENDED = new CountDownLatch(1);
  private static final AtomicInteger FAILURES = new AtomicInteger();
  private static volatile Supplier<String> counters;

  private Console() {
  }

  /** Read stdin from now on; the process ends only after it. */
  static void listen() {
    Thread reader = new Thread(Console::read, "console");
    reader.setDaemon(true);
    reader.start();
    Runtime.getRuntime().addShutdownHook(new Thread(Console::await, "await-stdin"));
  }

  /** {@code supplier} gives a JSON object of the engine's counters, at any time. */
  public static void counters(Supplier<String> supplier) {
    counters = supplier;
  }

  /** A fact for the harness: a name without blanks, and words. */
  public static void tell(String name, String words) {
    System.err.println(MARK + name + " " + oneLine(words));
  }

  /** An operation has failed; the harness ends the run on it. */
  public static void failed(String operation, Throwable cause) {
    failed(operation, cause.getMessage() == null ? cause.toString() : cause.getMessage());
  }

  /** See above. */
  public static void failed(String operation, String why) {
    if (FAILURES.incrementAndGet() <= MOST_FAILURES) {
      tell("failed", operation + ": " + why);
    }
  }

  private static void read() {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      String name;
      while ((name = lines.readLine()) != null) {
        tell("clock", name + " " + clocks());
        Supplier<String> supplier = counters;
        tell("counters", name + " " + (supplier == null ? "{}" : supplier.get()));
      }
    } catch (IOException e) {
      tell("console", e.toString());
    } finally {
      STDIN_ENDED.countDown();
    }
  }

  /** Wall clock (ms) and monotonic clock (ns) of one moment, as close as they can be read. */
  private static String clocks() {
    for (int i = 0; ; i++) {
      long before = System.nanoTime();
      long wall = System.currentTimeMillis();
      long after = System.nanoTime();
      if (after - before < CLOSE_NS || i == MOST_READINGS) {
        return wall + " " + before;
      }
    }
  }

  private static void await() {
    tell("ended", "");
    try {
      STDIN_ENDED.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static String oneLine(String words) {
    return words.strip().replace('\n', ' ').replace('\r', ' ');
  }
}

package tierbench.ycsb;

import java.util.HashMap;
import site.ycsb.ByteIterator;
import site.ycsb.workloads.CoreWorkload;

/**
 * The core workload that writes what its {@code dataintegrity} can check, and leaves the check
 * itself for afterwards: under {@code dataintegrity} the core compares each value that it reads
 * with one it allocates again, which would count as the client's work in every measured read.
 */
public final class UnverifiedReads extends CoreWorkload {
  @Override
  protected void verifyRow(String key, HashMap<String, ByteIterator> cells) {
    // Everything is read and verified by a run of the core workload after the measured one.
  }
}

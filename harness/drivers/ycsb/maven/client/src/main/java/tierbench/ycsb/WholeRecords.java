package tierbench.ycsb;

import java.util.HashMap;
import java.util.Properties;
import site.ycsb.ByteIterator;
import site.ycsb.Status;
import site.ycsb.WorkloadException;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * The core workload whose check of what it reads looks at whole records.
 *
 * <p>The core's own check compares the fields that came, however few. This one wants all of them,
 * each as long as it may be ({@code tierbench.shortest} to {@code fieldlength}), and asks the core's
 * check after it where that made the values ({@code tierbench.values}).
 */
public final class WholeRecords extends CoreWorkload {
  private int fields;
  private int shortest;
  private int longest;
  private boolean values;

  @Override
  public void init(Properties properties) throws WorkloadException {
    super.init(properties);
    fields = Integer.parseInt(properties.getProperty(FIELD_COUNT_PROPERTY));
    shortest = Integer.parseInt(properties.getProperty("tierbench.shortest"));
    longest = Integer.parseInt(properties.getProperty(FIELD_LENGTH_PROPERTY));
    values = Boolean.parseBoolean(properties.getProperty("tierbench.values"));
  }

  @Override
  protected void verifyRow(String key, HashMap<String, ByteIterator> cells) {
    if (!whole(cells)) {
      Measurements.getMeasurements().reportStatus("VERIFY", Status.UNEXPECTED_STATE);
    } else if (values) {
      super.verifyRow(key, cells);
    } else {
      Measurements.getMeasurements().reportStatus("VERIFY", Status.OK);
    }
  }

  private boolean whole(HashMap<String, ByteIterator> cells) {
    if (cells.size() != fields) {
      return false;
    }
    for (ByteIterator value : cells.values()) {
      if (value.bytesLeft() < shortest || value.bytesLeft() > longest) {
        return false;
      }
    }
    return true;
  }
}

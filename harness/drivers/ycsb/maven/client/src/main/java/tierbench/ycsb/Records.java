package tierbench.ycsb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;

/**
 * Records of a key-value engine as bytes: for each field the length of its name (four bytes, the
 * highest first), its name, the length of its value and its value. The fields of a record stand
 * in their order, as the native client writes them.
 */
public final class Records {
  private static final int LENGTH_BYTES = 4;

  private final List<String> names = new ArrayList<>();
  private final Map<String, byte[]> nameBytes = new HashMap<>();

  /** Of the fields that the workload's properties name. */
  public Records(Properties properties) {
    String prefix = properties.getProperty("fieldnameprefix", "field");
    int count = Integer.parseInt(properties.getProperty("fieldcount", "10"));
    for (int i = 0; i < count; i++) {
      names.add(prefix + i);
      nameBytes.put(prefix + i, (prefix + i).getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Whether these are all fields of a record. */
  public boolean whole(Map<String, ByteIterator> values) {
    return values.size() == names.size();
  }

  /** A record of all fields. */
  public byte[] encode(Map<String, ByteIterator> values) {
    byte[][] bytes = new byte[names.size()][];
    int length = 0;
    for (int i = 0; i < bytes.length; i++) {
      ByteIterator value = values.get(names.get(i));
      if (value == null) {
        throw new IllegalArgumentException("a record without its " + names.get(i));
      }
      bytes[i] = value.toArray();
      length += 2 * LENGTH_BYTES + nameBytes.get(names.get(i)).length + bytes[i].length;
    }
    ByteBuffer record = ByteBuffer.allocate(length);
    for (int i = 0; i < bytes.length; i++) {
      put(record, nameBytes.get(names.get(i)));
      put(record, bytes[i]);
    }
    return record.array();
  }

  /** The fields {@code wanted} (null: all) of a record, into {@code result}. */
  public void decode(byte[] record, Set<String> wanted, Map<String, ByteIterator> result) {
    ByteBuffer rest = ByteBuffer.wrap(record);
    while (rest.hasRemaining()) {
      String name = name(record, rest);
      int length = length(rest);
      if (wanted == null || wanted.contains(name)) {
        result.put(name, new ByteArrayByteIterator(record, rest.position(), length));
      }
      rest.position(rest.position() + length);
    }
  }

  /** {@code record} with these values in it instead of its own, everything else as it was. */
  public byte[] changed(byte[] record, Map<String, ByteIterator> values) {
    Map<String, byte[]> fresh = new HashMap<>();
    values.forEach((name, value) -> fresh.put(name, value.toArray()));
    List<byte[]> fields = new ArrayList<>();
    List<String> order = new ArrayList<>();
    int size = 0;
    ByteBuffer rest = ByteBuffer.wrap(record);
    while (rest.hasRemaining()) {
      String name = name(record, rest);
      byte[] value = new byte[length(rest)];
      rest.get(value);
      byte[] other = fresh.remove(name);
      order.add(name);
      fields.add(other == null ? value : other);
      size += 2 * LENGTH_BYTES + bytes(name).length + fields.get(fields.size() - 1).length;
    }
    if (!fresh.isEmpty()) {
      throw new IllegalArgumentException("a record without its " + fresh.keySet());
    }
    ByteBuffer changed = ByteBuffer.allocate(size);
    for (int i = 0; i < fields.size(); i++) {
      put(changed, bytes(order.get(i)));
      put(changed, fields.get(i));
    }
    return changed.array();
  }

  private byte[] bytes(String name) {
    byte[] known = nameBytes.get(name);
    return known != null ? known : name.getBytes(StandardCharsets.UTF_8);
  }

  private static String name(byte[] record, ByteBuffer rest) {
    int length = length(rest);
    String name = new String(record, rest.position(), length, StandardCharsets.UTF_8);
    rest.position(rest.position() + length);
    return name;
  }

  private static int length(ByteBuffer rest) {
    int length = rest.remaining() < LENGTH_BYTES ? -1 : rest.getInt();
    if (length < 0 || length > rest.remaining()) {
      throw new IllegalArgumentException("a record that is cut off, or was never one");
    }
    return length;
  }

  private static void put(ByteBuffer to, byte[] bytes) {
    to.putInt(bytes.length);
    to.put(bytes);
  }
}

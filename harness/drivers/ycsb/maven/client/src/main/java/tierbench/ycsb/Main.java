package tierbench.ycsb;

/** The official client, as it is, with a harness at its stdin. */
public final class Main {
  private Main() {
  }

  public static void main(String[] arguments) {
    Console.listen();
    site.ycsb.Client.main(arguments);
  }
}

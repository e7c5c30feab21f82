package tierbench.ycsb;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import javax.net.SocketFactory;

/**
 * Sockets that lead to a unix socket, whatever host and port a JDBC driver asks for.
 *
 * <p>JDBC drivers make their factory themselves, by the name of its class, so that the path is
 * one for the process.
 */
public final class UnixSocketFactory extends SocketFactory {
  private static volatile String path;

  static void path(String socket) {
    path = socket;
  }

  @Override
  public Socket createSocket() throws IOException {
    return new UnixSocket(path);
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    return connected();
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress local, int localPort)
      throws IOException {
    return connected();
  }

  @Override
  public Socket createSocket(InetAddress host, int port) throws IOException {
    return connected();
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort)
      throws IOException {
    return connected();
  }

  private static Socket connected() throws IOException {
    Socket socket = new UnixSocket(path);
    socket.connect(null, 0);
    return socket;
  }
}

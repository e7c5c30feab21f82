package tierbench.ycsb;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * A unix socket for drivers that want a {@link Socket}: they use it from one thread at a time and
 * wait as long as it takes, so that time limits and TCP's options are taken and let be.
 */
final class UnixSocket extends Socket {
  private static final int BUFFER_BYTES = 64 * 1024;

  private final UnixDomainSocketAddress address;
  private final SocketChannel channel;
  private boolean connected;

  UnixSocket(String path) throws IOException {
    address = UnixDomainSocketAddress.of(path);
    channel = SocketChannel.open(StandardProtocolFamily.UNIX);
  }

  @Override
  public void connect(SocketAddress endpoint) throws IOException {
    connect(endpoint, 0);
  }

  @Override
  public void connect(SocketAddress endpoint, int timeout) throws IOException {
    channel.connect(address);
    connected = true;
  }

  @Override
  public InputStream getInputStream() {
    return new Input();
  }

  @Override
  public OutputStream getOutputStream() {
    return new Output();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  @Override
  public boolean isConnected() {
    return connected;
  }

  @Override
  public boolean isClosed() {
    return !channel.isOpen();
  }

  @Override
  public boolean isBound() {
    return connected;
  }

  @Override
  public InetAddress getInetAddress() {
    return InetAddress.getLoopbackAddress();
  }

  @Override
  public int getSoTimeout() {
    return 0;
  }

  @Override
  public void setSoTimeout(int timeout) {
  }

  @Override
  public void setTcpNoDelay(boolean on) {
  }

  @Override
  public void setKeepAlive(boolean on) {
  }

  @Override
  public void setSoLinger(boolean on, int linger) {
  }

  @Override
  public void setReceiveBufferSize(int size) {
  }

  @Override
  public void setSendBufferSize(int size) {
  }

  @Override
  public int getReceiveBufferSize() {
    return BUFFER_BYTES;
  }

  @Override
  public int getSendBufferSize() {
    return BUFFER_BYTES;
  }

  @Override
  public void shutdownInput() throws IOException {
    channel.shutdownInput();
  }

  @Override
  public void shutdownOutput() throws IOException {
    channel.shutdownOutput();
  }

  private final class Input extends InputStream {
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES).flip();

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] to, int offset, int length) throws IOException {
      if (length == 0) {
        return 0;
      }
      if (!buffer.hasRemaining()) {
        int found = channel.read(buffer.clear());
        buffer.flip();
        if (found < 0) {
          buffer.position(buffer.limit());
          return -1;
        }
      }
      int taken = Math.min(length, buffer.remaining());
      buffer.get(to, offset, taken);
      return taken;
    }

    @Override
    public int available() {
      return buffer.remaining();
    }

    @Override
    public void close() throws IOException {
      UnixSocket.this.close();
    }
  }

  private final class Output extends OutputStream {
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);

    @Override
    public void write(int one) throws IOException {
      write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] from, int offset, int length) throws IOException {
      int sent = 0;
      while (sent < length) {
        int part = Math.min(length - sent, BUFFER_BYTES);
        buffer.clear().put(from, offset + sent, part).flip();
        while (buffer.hasRemaining()) {
          channel.write(buffer);
        }
        sent += part;
      }
    }

    @Override
    public void close() throws IOException {
      UnixSocket.this.close();
    }
  }
}

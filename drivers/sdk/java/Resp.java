// Commands to a Redis server, as few as the template needs.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

final class Resp {
    private final String name;
    private final int port;

    /** Of host:port. */
    Resp(String host) {
        int colon = host.lastIndexOf(':');
        name = host.substring(0, colon);
        port = Integer.parseInt(host.substring(colon + 1));
    }

    /** One command on a connection of its own; the first line of the reply. */
    String command(String... words) throws Exception {
        try (Socket socket = new Socket()) {
            try {
                // Made anew each time: an InetSocketAddress keeps for ever what its name meant when it was made.
                socket.connect(new InetSocketAddress(name, port), 2_000);
            } catch (IOException error) {
                throw new LocklabDriver.Failed("not sent: " + error);
            }
            socket.setSoTimeout(3_000);
            StringBuilder line = new StringBuilder("*" + words.length + "\r\n");
            for (String word : words) {
                line.append("$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n");
            }
            socket.getOutputStream().write(line.toString().getBytes(StandardCharsets.UTF_8));
            String reply = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
            if (reply == null) {
                throw new IOException("the server closed the connection");
            }
            if (reply.startsWith("-")) {
                throw new LocklabDriver.Failed("the server said " + reply);
            }
            return reply;
        }
    }
}

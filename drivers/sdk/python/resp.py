"""A small Redis client, for one server: enough for a lock, and nothing to install. Your driver uses your library's own."""
import socket

from locklab_driver import Failed, Unknown


class Redis:
    def __init__(self, hello, timeout_s=2):
        self.hello, self.timeout_s, self.idle = hello, timeout_s, []
        self.idle.append(self._connect())

    def command(self, *words):
        """The reply: a number, text, None or a list. `Failed`: the server was not asked, or said no; `Unknown`: nobody knows."""
        try:
            connection = self.idle.pop()
        except IndexError:
            connection = self._connect_now()
        try:
            reply = self._ask(connection, words)
        except OSError as error:
            # What broke this connection has broken the others too.
            for broken in [connection, *self._drain()]:
                broken.close()
            raise Unknown(str(error)) from error
        self.idle.append(connection)
        if isinstance(reply, Failed):
            raise reply
        return reply

    def _connect_now(self):
        try:
            return self._connect()
        except OSError as error:
            raise Failed(f"not sent: {error}") from error

    def _drain(self):
        idle, self.idle = self.idle, []
        return idle

    def _connect(self):
        connection = socket.create_connection(self.hello.servers[0], timeout=self.timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.hello.password:
            reply = self._ask(connection, ("AUTH", self.hello.user or "default", self.hello.password))
            if isinstance(reply, Failed):
                raise reply
        return connection

    def _ask(self, connection, words):
        parts = [str(word).encode() for word in words]
        connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        with connection.makefile("rb") as answer:
            return self._read(answer)

    def _read(self, answer):
        line = answer.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            return Failed(rest)
        if kind == b"+":
            return rest
        if kind == b"$":
            return None if rest == "-1" else answer.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == "-1" else [self._read(answer) for _ in range(int(rest))]
        return int(rest)

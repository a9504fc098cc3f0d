"""
A wire between psycopg and a server, which counts trips, and can be cut before
or after any statement.
"""

import socket
import struct
import threading
from contextlib import suppress

__all__ = ["Wire"]

_FLUSH = b"H\0\0\0\4"
_WAIT_S = 30


def _read_exactly(source, size):
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise ConnectionError

        data += more

    return data


class Wire:
    """
    A port that leads to a server's, for clients that don't encrypt.

    Attributes:
        trips: How often a client waited for all it had asked for.

        statements: How many statements went through.
    """

    def __init__(self, port):
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.trips = self.statements = 0
        self._cut_at = self._is_after = None
        self.is_cut = False
        self._open = []
        threading.Thread(target=self._accept_clients, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._listening.close()
        for each in self._open:
            each.close()

    def cut(self, at, *, is_after):
        """
        Cut the connection at the statement that comes after *at* others: before the
        server gets it, or after it ran and before the client gets the answer.
        """
        self.statements = self.trips = 0
        self._cut_at, self._is_after, self.is_cut = at, is_after, False

    def mend(self):
        """Cut it no more; whether it was."""
        self._cut_at = None
        return self.is_cut

    def _accept_clients(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return

            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            _Connection(self, client, server)


class _Connection:
    def __init__(self, wire, client, server):
        self._wire, self._client, self._server = wire, client, server
        self._asked = self._answered = 0
        self._is_mute = False
        self._heard = threading.Condition()
        for work in (self._from_client, self._from_server):
            threading.Thread(target=self._run_guarded, args=[work], daemon=True).start()

    def _run_guarded(self, work):
        with suppress(OSError):
            work()

        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _from_client(self):
        (size,) = struct.unpack("!I", head := _read_exactly(self._client, 4))
        self._server.sendall(head + _read_exactly(self._client, size - 4))
        while True:
            head = _read_exactly(self._client, 5)
            (size,) = struct.unpack("!I", head[1:])
            message = head + _read_exactly(self._client, size - 4)
            # Query and Sync, after which the client waits for the answer.
            self._wire.trips += head[:1] in b"QS"
            # Execute, Query, and the end of what is copied.
            if head[:1] in b"EQc" and self._is_cut_at(message):
                return

            self._server.sendall(message)

    def _is_cut_at(self, message):
        wire = self._wire
        number, wire.statements = wire.statements, wire.statements + 1
        if number != wire._cut_at:
            self._asked += 1
            return False

        wire.is_cut = True
        self._is_mute = True
        if wire._is_after:
            with self._heard:
                self._asked += 1
                self._server.sendall(message + _FLUSH)
                self._heard.wait_for(lambda: self._answered >= self._asked, _WAIT_S)

        return True

    def _from_server(self):
        while True:
            head = _read_exactly(self._server, 5)
            (size,) = struct.unpack("!I", head[1:])
            message = head + _read_exactly(self._server, size - 4)
            # CommandComplete, an error, and being ready for data to copy.
            if head[:1] in b"CEG":
                with self._heard:
                    self._answered += 1
                    self._heard.notify_all()

            if not self._is_mute:
                self._client.sendall(message)

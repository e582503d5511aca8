"""Counts the bytes that a client and a server exchange, by standing between them."""

import contextlib
import socket
import threading
import urllib.parse


class Relay:
    """Forwards connections to one server; counts what HTTP, or else TCP, carries: no packets' heads."""

    def __init__(self, url: str) -> None:
        split = urllib.parse.urlsplit(url)
        self.to = (split.hostname, split.port)
        self.listening = socket.create_server(("127.0.0.1", 0))
        port = self.listening.getsockname()[1]
        self.url = split._replace(netloc=f"127.0.0.1:{port}").geturl()
        self.out = self.back = 0
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            server = socket.create_connection(self.to)
            self.connections += [client, server]
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._forward, args=(client, server, "out"), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, "back"), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, count: str) -> None:
        with contextlib.suppress(OSError):
            while came := source.recv(1 << 20):
                # Counted first: who has the last byte may ask for the count.
                setattr(self, count, getattr(self, count) + len(came))
                sink.sendall(came)
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.close()
        for connection in self.connections:
            connection.close()

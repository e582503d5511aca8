#!/usr/bin/env python3
"""Stands between clients and a server, and keeps the small messages that clients send.

    python3 interop/record.py http://127.0.0.1:8080 --name gsoap --to fuzz/corpus

A file holds one request as it was received: its head, and its body without transfer coding.
`run.py --record` does this for all toolkits.
"""

import argparse
import contextlib
import re
import socket
import threading
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

MOST = 4 << 10  # bytes of a body; larger ones are passed on only
OPERATION = re.compile(rb"<(?:[\w.-]+:)?Body[^>]*>\s*<(?:[\w.-]+:)?([\w.-]+)")


class Message(NamedTuple):
    """A request or an answer."""

    head: bytes  # with the empty line that ends it
    coded: bytes  # the body as it came
    body: bytes  # without transfer coding

    def header(self, name: str) -> str:
        return header(self.head, name)


class Recorder:
    """A proxy of one server, on a port of its own."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.name = "client"  # of the toolkit that is at work
        self.server = ("", 0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def forward_to(self, url: str) -> None:
        parts = urlsplit(url)
        self.server = (parts.hostname, parts.port or 80)

    def accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        """Passes requests and answers of one connection to and fro."""
        with contextlib.suppress(OSError), client, socket.create_connection(self.server) as server:
            asked, answered = client.makefile("rb"), server.makefile("rb")
            while request := read(asked):
                server.sendall(request.head + request.coded)
                self.keep(request)
                answer = read(answered, is_answer=True)
                if answer is None:
                    return
                client.sendall(answer.head + answer.coded)
                if is_last(request, answer):
                    return

    def keep(self, request: Message) -> None:
        if not request.head.startswith(b"POST") or len(request.body) > MOST:
            return
        found = OPERATION.search(request.body)
        operation = found[1].decode() if found else "unknown"
        path = self.directory / packaging(request) / f"{self.name}-{operation}-{len(request.body)}.http"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(request.head + request.body)


def is_last(request: Message, answer: Message) -> bool:
    """The connection ends with this answer; Axis 1.4 reads until it does."""
    said = [message.header("connection").lower() for message in (request, answer)]
    old = b" HTTP/1.0" in request.head.split(b"\r\n", 1)[0]
    return "close" in said or (old and "keep-alive" not in said)


def packaging(request: Message) -> str:
    kind = request.header("content-type").lower()
    if kind.startswith("application/dime"):
        return "dime"
    if kind.startswith("multipart/related"):
        return "mtom" if "application/xop+xml" in kind else "swa"
    return "plain"


def header(head: bytes, name: str) -> str:
    """The value of a header, unfolded; empty if there is none."""
    unfolded = re.sub(rb"\r?\n[ \t]+", b" ", head).decode("latin-1")
    found = re.search(rf"^{name}:[ \t]*(.*?)[ \t]*\r?$", unfolded, re.IGNORECASE | re.MULTILINE)
    return found[1] if found else ""


def read(stream: BinaryIO, is_answer: bool = False) -> Message | None:
    """The next message; none if the other side has hung up."""
    head = b""
    while not head.endswith((b"\r\n\r\n", b"\n\n")):
        line = stream.readline()
        if not line:
            return None
        head += line
    if is_answer and head.split(maxsplit=2)[1] in (b"100", b"204", b"304"):
        return Message(head, b"", b"")
    if "chunked" in header(head, "transfer-encoding").lower():
        return Message(head, *read_chunks(stream))
    length = header(head, "content-length")
    body = stream.read(int(length)) if length else stream.read() if is_answer else b""
    return Message(head, body, body)


def read_chunks(stream: BinaryIO) -> tuple[bytes, bytes]:
    """A chunked body as it came, and decoded."""
    coded, body = [], []
    while True:
        line = stream.readline()
        size = int(line.split(b";")[0], 16)
        data = stream.read(size)
        body.append(data)
        coded += [line, data, stream.readline()]
        if size == 0:
            return b"".join(coded), b"".join(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", metavar="URL", help="the server's address")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--name", default="client", help="what the files begin with")
    options = parser.parse_args()
    recorder = Recorder(options.to)
    recorder.name = options.name
    recorder.forward_to(options.server)
    print(f"{recorder.url} -> {options.server}; end me with Ctrl-C", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()

"""Long-lived servers and clients, so that stacks can take turns without starting anew.

A client reads `URL OPERATION N REPETITIONS` lines and answers each with one line of JSON:
`{"equal": true, "seconds": [0.001, ...]}`. OPERATION is `echo`, `getMatrix`, or `parse`: the client
decodes an answer to getMatrix that it keeps in memory. With no repetitions it makes one call and
compares the numbers that came back with those that were sent; nothing is timed.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import tempfile
import urllib.parse
from dataclasses import dataclass, field

from place import Place
from stacks import Stack

START = 120  # seconds for a server to tell its port
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A server or client ended, hung or said that the numbers differ."""


def end_with_us() -> None:
    """In a child: however the measurement ends, this process ends with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """A program that is talked to in lines, with what it says on stderr kept for when it fails."""

    def __init__(self, command: list[str], stdin: int = subprocess.DEVNULL) -> None:
        self.said = tempfile.TemporaryFile()
        self.command = command
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=self.said,
                                        bufsize=0, preexec_fn=end_with_us)
        self.rest = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self, seconds: float) -> str:
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            if not ready:
                self.end()
                raise Failed(f"no answer within {seconds:.0f} s")
            came = os.read(self.process.stdout.fileno(), 1 << 20)
            if not came:
                self.end()
                raise Failed(self.last_words())
            self.rest += came
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def last_words(self) -> str:
        self.said.seek(0)
        lines = [line for line in self.said.read().decode(errors="replace").splitlines() if line.strip()]
        # Java tells the exception first and the places after it.
        told = [line for line in lines if not line.startswith((" ", "\t"))]
        return (told or [f"ended with {self.process.returncode}"])[-1][:300]

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        if self.alive():
            self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Network:
    """Where servers and clients run: here the loopback interface, in link.py two namespaces."""

    name: str = "loopback"
    host: str = "127.0.0.1"
    told: str = "loopback"
    in_server: list[str] = field(default_factory=list)
    in_client: list[str] = field(default_factory=list)


@dataclass
class Floor:
    """Starts what is asked for, once, and again if it ended; ends all of it."""

    place: Place
    network: Network
    servers: dict[tuple[str, ...], tuple[Process, str]] = field(default_factory=dict)
    clients: dict[str, Process] = field(default_factory=dict)

    def __enter__(self) -> "Floor":
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.clients.values(), *(process for process, _ in self.servers.values())]:
            process.end()

    def url(self, stack: Stack) -> str:
        """Of the stack's server, which is started if it doesn't run."""
        return self._server(stack)[1] + stack.path

    def server_pid(self, stack: Stack) -> int:
        return self._server(stack)[0].pid

    def _server(self, stack: Stack) -> tuple[Process, str]:
        key = tuple(stack.server(self.place, self.network.host))
        running = self.servers.get(key)
        if running is None or not running[0].alive():
            process = Process([*self.network.in_server, *key])
            # A port, or a line that ends with a URL.
            told = process.line(START).split()[-1]
            authority = (f"{self.network.host}:{told}" if told.isdigit()
                         else urllib.parse.urlsplit(told).netloc)
            running = self.servers[key] = process, f"http://{authority}"
        return running

    def ask(self, stack: Stack, url: str, operation: str, n: int, repetitions: int,
            patience: float) -> list[float]:
        """The seconds that each repetition took; raises if none was asked for and numbers differ."""
        client = self.clients.get(stack.name)
        if client is None or not client.alive():
            client = Process([*self.network.in_client, *stack.client(self.place)], subprocess.PIPE)
            self.clients[stack.name] = client
        try:
            client.process.stdin.write(f"{url} {operation} {n} {repetitions}\n".encode())
        except OSError:
            pass  # it ended; what it said last is read as its answer
        answer = json.loads(client.line(patience))
        if not answer["equal"]:
            raise Failed("other numbers came back")
        return answer["seconds"]

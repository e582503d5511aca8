"""The ranks of one side: long-lived processes that sleep until they have a turn, whatever their implementation does in its calls."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from drivers import Failed, end_with_us
from peers import Side

START, END = 60, 10  # seconds for all ranks to come, and to go


class Domain:
    """Started ranks of a side, each with a connection over which it is told its turns."""

    def __init__(self, side: Side, ranks: int, hosts: int) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="messages-")
        self.said = tempfile.TemporaryFile()
        self.connections: dict[int, socket.socket] = {}
        self.processes: list[subprocess.Popen] = []
        # Of the processes of ranks, whoever started them: IDs, and file descriptors that stay theirs.
        self.pids: list[int] = []
        self.pidfds: list[int] = []
        self.rest = b""
        try:
            self._start(side, ranks, hosts)
        except BaseException:
            self.end()
            raise

    def _start(self, side: Side, ranks: int, hosts: int) -> None:
        path = Path(self.directory.name) / "socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(ranks)
            for command in side.start(ranks, path):
                self.processes.append(subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, preexec_fn=end_with_us,
                    # An interrupt at the terminal is ours: they end when we end them.
                    start_new_session=True, env={**os.environ, **dict(side.environment)}))
            self._gather(listening, ranks)
        if len({os.readlink(f"/proc/{pid}/ns/net") for pid in self.pids}) != hosts:
            raise Failed(f"its ranks are not at {hosts} ends")

    def _gather(self, listening: socket.socket, ranks: int) -> None:
        until = time.monotonic() + START
        while len(self.connections) < ranks:
            ready, _, _ = select.select([listening], [], [], 0.1)
            if ready:
                self._accept(listening)
            elif any(process.poll() is not None for process in self.processes):
                raise Failed(f"it ended: {self.last_words()}")
            elif time.monotonic() > until:
                raise Failed(f"{len(self.connections)} of {ranks} ranks came within {START} s: {self.last_words()}")

    def _accept(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        credentials = struct.Struct("3i")
        pid, _, _ = credentials.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
        try:
            self.pidfds.append(os.pidfd_open(pid))
            word = b""
            while not word.endswith(b"\n"):
                word += connection.recv(1) or b"?\n"
            self.connections[int(word)] = connection
        except (OSError, ValueError) as problem:
            connection.close()
            raise Failed(f"a rank came and went: {self.last_words()}") from problem
        self.pids.append(pid)

    def ask(self, operation: str, word: str, n: int, repetitions: int, patience: float) -> list[float]:
        """The seconds that each repetition took at rank 0; raises if none was asked for and numbers are wrong."""
        line = f"{operation} {word} {n} {repetitions}\n".encode()
        try:
            for connection in self.connections.values():
                connection.sendall(line)
        except OSError as problem:
            raise Failed(f"a rank is gone: {self.last_words()}") from problem
        answer = json.loads(self._line(patience))
        if not answer["equal"]:
            raise Failed("wrong numbers came")
        return answer["seconds"]

    def _line(self, patience: float) -> bytes:
        first, until = self.connections[0], time.monotonic() + patience
        while b"\n" not in self.rest:
            ready, _, _ = select.select([first], [], [], max(0, until - time.monotonic()))
            came = first.recv(1 << 16) if ready else b""
            if not came:
                what = "rank 0 ended" if ready else f"no answer within {patience:.0f} s"
                raise Failed(f"{what}: {self.last_words()}")
            self.rest += came
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def used(self) -> float:
        """Processor seconds that all ranks have used; the scheduler counts them in nanoseconds."""
        total = 0
        for pid in self.pids:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def last_words(self) -> str:
        self.said.seek(0)
        lines = [line for line in self.said.read().decode(errors="replace").splitlines() if line.strip(" -\t")]
        return " ... ".join([lines[0], lines[-1]])[:400] if lines else "it said nothing"

    def close(self) -> None:
        """Tells ranks no more, at which they finish."""
        for connection in self.connections.values():
            connection.close()

    def end(self) -> None:
        """Ranks finish when nobody tells them more; who does not is ended, also if this is interrupted. May be called again."""
        try:
            self.close()
            self._wait()
            for process in self.processes:
                process.terminate()
            self._wait()
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
            # Those that their launcher has left behind.
            while self.pidfds:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.pidfds[-1], signal.SIGKILL)
                os.close(self.pidfds.pop())
            self.said.close()
            self.directory.cleanup()

    def _wait(self) -> None:
        until = time.monotonic() + END
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, until - time.monotonic()))

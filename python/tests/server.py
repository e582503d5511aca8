"""A real `fishplate serve` for the length of a `with`, on a free loopback port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SERVICES = Path(__file__).parent / "services"
BINARY = Path(os.environ.get("FISHPLATE", ROOT / "target/debug/fishplate"))
# As after `. .venv/bin/activate`: services find this Python and its packages.
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
GONE_WITHIN = 20.0  # seconds


class Hosted:
    """A server and the addresses of its services."""

    def __init__(
        self, folder: Path, services: list[Path], *options: str, functions: Sequence[str] = ()
    ) -> None:
        self.data = folder / "data"
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        self.words = [str(BINARY), "serve", *map(str, services), "--data", str(self.data), *options]
        self.count = len(services) + len(functions)
        self.urls: dict[str, str] = {}
        self.start("127.0.0.1:0")

    def start(self, listen: str) -> None:
        """Begins to serve at an address; after a kill of the server, at that where it was."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.words, "--listen", listen],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=ENVIRONMENT,
                text=True,
                start_new_session=True,
            )
        self.urls.clear()
        assert self.process.stdout is not None
        while len(self.urls) < self.count:
            line = self.process.stdout.readline()
            assert line, f"fishplate serve ended: {self.log.read_text()}"
            name, _, url = line.strip().partition(" ")
            if name != "session":  # The server's own.
                self.urls[name] = url
        # So that it is never kept waiting.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    @property
    def url(self) -> str:
        """The server itself."""
        return next(iter(self.urls.values())).rpartition("/")[0]

    def __enter__(self) -> Hosted:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the server, and then the supervisors, which are made to outlive it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(GONE_WITHIN)
        until = time.monotonic() + GONE_WITHIN
        while (left := self.holders()) and time.monotonic() < until:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)

    def holders(self) -> list[int]:
        """Processes that were started for this data directory."""
        word = str(self.data).encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if word in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
            except OSError:
                continue
        return found

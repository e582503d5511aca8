"""A Fishplate server for the length of the demo, on a free loopback port, that leaves nothing."""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from . import process
from .process import Failed

READY_WITHIN = 60.0  # seconds
GONE_WITHIN = 10.0  # seconds
ROOT = Path(__file__).resolve().parents[3]


def fishplate_binary(chosen: Path | None) -> Path:
    """The binary to drive: this one, or that of the variable FISHPLATE, or one that was built here, or of PATH."""
    if chosen is None and os.environ.get("FISHPLATE"):
        chosen = Path(os.environ["FISHPLATE"])
    places = (
        [chosen]
        if chosen
        else [ROOT / "target" / kind / "fishplate" for kind in ("release", "debug")]
    )
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    found = None if chosen else shutil.which("fishplate")
    if found is None:
        raise Failed(
            f"no fishplate binary{f' at {chosen}' if chosen else ''}: please build it (cargo build --release) or "
            "name it (--fishplate, or the variable FISHPLATE)"
        )
    return Path(found)


class Server:
    """`fishplate serve` of some service files; use it in a `with`."""

    def __init__(
        self,
        fishplate: Path,
        service_files: list[Path],
        folder: Path,
        environment,
        options: Sequence[str] = (),
        leading: Sequence[str] = (),
        address: str = "127.0.0.1",
    ):
        """`leading` are words before the command, such as `setpriv` with the user who runs it."""
        self.fishplate = fishplate
        self.service_files = service_files
        self.leading = list(leading)
        self.listen = f"{address}:0"
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.environment = environment
        self.options = [str(option) for option in options]
        self.process = None
        self.urls: dict[str, str] = {}

    def __enter__(self) -> "Server":
        words = [*self.leading, str(self.fishplate), "serve", *map(str, self.service_files)]
        words += ["--listen", self.listen, "--data", str(self.data), *self.options]
        try:
            with self.log.open("wb") as log, process.signals_held():
                self.process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self.environment,
                    start_new_session=True,
                )
            self.wait_ready()
            # Started again, it is where callers have known it.
            self.listen = urlsplit(next(iter(self.urls.values()))).netloc
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Reads the `NAME URL` line of each service."""
        self.urls = {}
        deadline = time.monotonic() + READY_WITHIN
        lines = b""
        while len(self.urls) < len(self.service_files):
            readable, _, _ = select.select([self.process.stdout], [], [], 0.2)
            chunk = os.read(self.process.stdout.fileno(), 65536) if readable else None
            if chunk == b"":
                raise Failed(f"fishplate serve ended\n{process.tail(self.log)}")
            lines += chunk or b""
            *whole, lines = lines.split(b"\n")
            for line in whole:
                name, _, url = line.decode().strip().partition(" ")
                if url:
                    self.urls[name] = url.strip()
            if time.monotonic() > deadline:
                raise Failed(f"fishplate serve is not ready after {READY_WITHIN:.0f} s")

    def stop(self) -> None:
        """Ends the server, and then the supervisors, which are made to outlive it."""
        if self.process is not None:
            process.end_group(self.process)
            self.process.stdout.close()
        deadline = time.monotonic() + GONE_WITHIN
        while (left := holders(self.data)) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            time.sleep(0.05)


def holders(folder: Path) -> list[int]:
    """The processes that work in a folder: started with its name, standing in it, or with a file
    in it open. The folder is ours alone, so they are ours too."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid() and holds(entry, str(folder))
    ]


def holds(entry: Path, folder: str) -> bool:
    """Whether the process of this /proc entry works in the folder."""
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        if any(folder.encode() in word for word in words):
            return True
        links = [entry / "cwd", *(entry / "fd").iterdir()]
        return any(os.readlink(link).startswith(folder) for link in links)
    except OSError:
        return False  # ended meanwhile, or not ours

"""Programs that leave nothing behind: each in a session of its own, ended as a whole."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a demo."""


class Failed(Exception):
    """A program or a call did not do its work; the text says what it said."""


def end_by_signals() -> None:
    """Has a signal end the demo by way of its cleaning up."""

    def interrupted(number, _) -> None:
        undisturbed()
        raise SystemExit(128 + number)

    for number in ENDING:
        signal.signal(number, interrupted)


def undisturbed() -> None:
    """Cleaning up is not interrupted, not even by a second Ctrl-C."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def main(name: str, work: Callable[[], None]) -> int:
    """A demo's work, and its exit code: what went wrong is one line, and a signal ends it by way of its cleaning up."""
    end_by_signals()
    try:
        work()
    except (Failed, ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def run(words, folder: Path, stdout: Path, stderr: Path, environment=None) -> int:
    """Runs a program to its end and gives its exit code; ends all of it if we are interrupted."""
    process = None
    with stdout.open("wb") as out, stderr.open("wb") as err:
        try:
            with signals_held():
                process = subprocess.Popen(
                    words,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=environment,
                    start_new_session=True,
                )
            return process.wait()
        finally:
            if process is not None and process.returncode is None:
                end_group(process)


@contextmanager
def signals_held() -> Iterator[None]:
    """Handles a signal that arrives meanwhile at the end. A handler that raises inside `Popen`
    would leave a process that nobody knows; a blocked signal would be blocked in the process."""
    arrived = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number in ENDING:
            signal.signal(number, lambda *words: arrived.append(words))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0][0])


def end_group(process: subprocess.Popen, grace: float = 5.0) -> None:
    """Ends a process and its session: asks first, insists after `grace` seconds."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            process.poll()  # or it stays in its group as a zombie
            try:
                os.killpg(process.pid, ask)
            except ProcessLookupError:
                return
            ask = 0
            time.sleep(0.01)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""

"""Programs that leave nothing behind: each in a session of its own, ended as a whole."""

import os
import signal
import subprocess
from pathlib import Path


class Failed(Exception):
    """A program or a call did not do its work; the text says what it said."""


def run(words, folder: Path, stdout: Path, stderr: Path, environment=None) -> int:
    """Runs a program to its end and gives its exit code; ends all of it if we are interrupted."""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
        )
        try:
            return process.wait()
        finally:
            if process.returncode is None:
                end_group(process)


def end_group(process: subprocess.Popen, grace: float = 5.0) -> None:
    """Ends a process and its session: asks first, insists after `grace` seconds."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, ask)
        except ProcessLookupError:
            pass
        try:
            process.wait(grace)
            return
        except subprocess.TimeoutExpired:
            continue


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""

"""The ways of a file from one end to the other: each a command that a user would give, timed whole."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server import Server
from sites import Ends, empty_pool, put
from tools import Tools

PACKAGINGS = ("base64", "mtom", "swa", "dime")


@dataclass
class Way:
    """One line of the figure."""

    name: str
    told: str
    # Makes ready, untimed, and gives what is timed.
    prepared: Callable[[Path], Callable[[], None]]
    # Removes what it left, untimed.
    cleared: Callable[[], None] = lambda: None


def fishplate(tools: Tools, ends: Ends, near: Server, far: Server) -> list[Way]:
    """A call that takes a file and does nothing with it."""
    def call(*words: object) -> list:
        return [*ends.in_near, tools.binary, "call", far.url, *words, "--no-key"]

    def value(packaging: str) -> Way:
        return Way(f"value-{packaging}", f"by value, {packaging}",
                   lambda file: lambda: run(call(f"data:{file}", "--packaging", packaging)))

    def reference(name: str, told: str, holder: Server) -> Way:
        def prepared(file: Path) -> Callable[[], None]:
            url = put(tools, ends, file, holder)
            forget(file)
            return lambda: run(call(f"data@{url}"))

        def cleared() -> None:
            for server in (near, far):
                empty_pool(tools, server)
        return Way(name, told, prepared, cleared)

    return [*(value(packaging) for packaging in PACKAGINGS),
            reference("reference", "by reference", near),
            reference("same-server", "by reference, same server", far)]


def forget(file: Path) -> None:
    """The holder has its own copy: two of the largest, and what comes of it, don't fit into memory."""
    with open(file, "rb") as held:
        os.fsync(held.fileno())
        os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def command(name: str, told: str, to: Path, words: Callable[[Path], list], *then: list) -> Way:
    """A command that writes the file `to`, and perhaps one that looks at it."""
    def prepared(file: Path) -> Callable[[], None]:
        to.unlink(missing_ok=True)

        def move() -> None:
            for each in (words(file), *then):
                run(each)
        return move
    return Way(name, told, prepared, lambda: to.unlink(missing_ok=True))


def copy(tools: Tools) -> Way:
    to = tools.scratch / "copied"
    return command("cp", "local copy (`cp`)", to, lambda file: ["cp", "--reflink=never", file, to])


def curl(tools: Tools, ends: Ends, base: str) -> list[Way]:
    """At the far end, as the server does it."""
    to = tools.scratch / "curled"

    def words(file: Path) -> list:
        return [*ends.in_far, tools.curl, "-sSf", "-o", to, f"{base}/{file.name}"]
    return [command("curl", "curl from nginx to disk", to, words),
            command("curl-sha256", "the same, then `sha256sum`", to, words, ["sha256sum", to])]


def rsync(tools: Tools, ends: Ends, base: str) -> Way:
    to = tools.scratch / "synced"
    return command("rsync", "rsync from its daemon", to,
                   lambda file: [*ends.in_far, "rsync", "--whole-file", f"{base}/{file.name}", to])


def scp(tools: Tools, ends: Ends, words: list, host: str) -> Way:
    to = tools.scratch / "secured"
    return command("scp", "scp", to, lambda file: [*ends.in_far, *words, f"{host}:{file}", to])


def run(command: list) -> None:
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        words = " ".join(str(word) for word in command)
        raise SystemExit(f"bench: {words}: {done.stderr.decode(errors='replace').strip()[-600:]}")

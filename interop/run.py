#!/usr/bin/env python3
"""Foreign SOAP toolkits against a running server, with stubs made from the WSDL it publishes."""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from preparation import PreparationFailed, install_packages, say
from toolkits import HERE, SERVICES, SIZES, TOOLKITS, Place, Toolkit

ROOT = HERE.parent
CLIENT_TIMEOUT = 300  # seconds; a client that hangs is a failure, not a wait


def main() -> int:
    options = parse_options()
    chosen = [toolkit for toolkit in TOOLKITS if toolkit.name in options.only]
    options.cache.mkdir(parents=True, exist_ok=True)
    install_packages({package for toolkit in chosen for package in toolkit.missing_packages()})
    with tempfile.TemporaryDirectory(prefix="fishplate-interop-") as scratch:
        with server(options.binary, Path(scratch)) as urls:
            place = gather(options.cache, urls)
            passed, failed = 0, 0
            for toolkit in chosen:
                good, bad = examine(toolkit, place)
                passed, failed = passed + good, failed + bad
    print(f"interop: {passed} passed, {failed} failed")
    return 1 if failed else 0


def parse_options() -> argparse.Namespace:
    names = [toolkit.name for toolkit in TOOLKITS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/debug/fishplate")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/interop")
    parser.add_argument("--only", type=lambda text: text.split(","), default=names,
                        help=f"some of {','.join(names)}")
    options = parser.parse_args()
    if unknown := set(options.only) - set(names):
        parser.error(f"no such toolkit: {', '.join(sorted(unknown))}")
    if not options.binary.exists():
        parser.error(f"{options.binary} is not there: cargo build -p fishplate")
    options.binary = options.binary.resolve()
    options.cache = options.cache.resolve()
    return options


@contextlib.contextmanager
def server(binary: Path, scratch: Path):
    """A server of our services on a free port; gives the address of each WSDL."""
    files = [str(HERE / "services" / f"{service}.toml") for service in SERVICES]
    with open(scratch / "server.log", "w+") as log:
        process = subprocess.Popen(
            [str(binary), "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), *files],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True)
        try:
            lines = [process.stdout.readline().split() for _ in SERVICES]
            if not all(len(line) == 2 for line in lines):
                log.seek(0)
                sys.exit(f"interop: the server did not start:\n{log.read()}")
            yield {name: f"{url}?wsdl" for name, url in lines}
        finally:
            process.terminate()
            process.wait(timeout=30)


def gather(cache: Path, urls: dict[str, str]) -> Place:
    """The WSDLs as fetched, and the files to send."""
    wsdl = {}
    for service in SERVICES:
        wsdl[service] = cache / f"{service}.wsdl"
        with urllib.request.urlopen(urls[service], timeout=30) as answer:
            wsdl[service].write_bytes(answer.read())
    payloads = cache / "payloads"
    payloads.mkdir(exist_ok=True)
    for size in SIZES:
        (payloads / f"{size}.bin").write_bytes(payload(size))
    return Place(cache, wsdl, urls, payloads)


def payload(size: int) -> bytes:
    """All byte values, then noise."""
    return (bytes(range(256)) + random.Random(size).randbytes(size))[:size]


def examine(toolkit: Toolkit, place: Place) -> tuple[int, int]:
    """Runs one toolkit's client; how many checks passed and failed."""
    print(toolkit.name, flush=True)
    due = toolkit.checks()
    try:
        toolkit.prepare(place)
    except PreparationFailed as problem:
        print(f"  not ok: {problem}")
        return 0, len(due)
    urls = [place.url[service] for service in SERVICES]
    command = [*toolkit.command(place), *urls, str(place.payloads)]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace",
                              env={**os.environ, **toolkit.environment}, timeout=CLIENT_TIMEOUT,
                              check=False)
    except subprocess.TimeoutExpired as problem:
        print(f"  not ok: the client hung; it had said: {problem.stdout!r}")
        return 0, len(due)
    good = {line[3:] for line in done.stdout.splitlines() if line.startswith("ok ")}
    for line in done.stdout.splitlines():
        say(line)
    left_out = [check for check in due if check not in good]
    reported = "\n".join(line for line in done.stdout.splitlines() if line.startswith("not ok "))
    for check in left_out:
        if f"not ok {check}:" not in reported:
            say(f"not ok {check}: not reported")
    if left_out or done.returncode != 0:
        say(done.stderr.strip().replace("\n", "\n  "))
    crashed = 0 if left_out or done.returncode == 0 else 1
    return len(due) - len(left_out), len(left_out) + crashed


if __name__ == "__main__":
    sys.exit(main())

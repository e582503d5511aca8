#!/usr/bin/env python3
"""Foreign SOAP toolkits against a running server, with stubs made from the WSDL it publishes."""

import argparse
import asyncio
import concurrent.futures
import contextlib
import functools
import http.server
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

from preparation import PreparationFailed, install_packages, run, say
from record import Recorder
from toolkit import ALWAYS, CUT, DESCRIPTIONS, EXAMPLES, FILES, FUNCTIONS, HERE, LARGE, SEED, SIZES, Place, Toolkit
from toolkits import PIPE_CHECKS, TOOLKITS

ROOT = HERE.parent
PIPE_PROGRAMS = ("gmsh", "tetgen", "ccx", "gmshToFoam", "rhoSimpleFoam")
CLIENT_TIMEOUT = int(os.environ.get("INTEROP_TIMEOUT", "300"))  # seconds; a client that hangs is a failure, not a wait


def main() -> int:
    options = parse_options()
    begun = time.monotonic()
    print(f"seed: FISHPLATE_TEST_SEED={SEED}")
    chosen = [toolkit for toolkit in TOOLKITS if toolkit.name in options.only]
    options.cache.mkdir(parents=True, exist_ok=True)
    install_packages({package for toolkit in chosen for package in toolkit.missing_packages()})
    recorder = Recorder(options.record) if options.record else None
    with tempfile.TemporaryDirectory(prefix="fishplate-interop-") as scratch:
        payloads = write_payloads(options.cache / "payloads")
        with (server(options.binary, Path(scratch), recorder) as urls, origin(payloads) as url,
              cutter(urls[FUNCTIONS[0]]) as cut, asking_server(options.binary, Path(scratch)) as login,
              pipe_server(options.binary, Path(scratch), chosen) as pipe):
            place = gather(options, chosen, urls, payloads, url, cut, login | pipe)
            passed, failed = 0, 0
            with preparations(chosen, place) as prepared:
                for toolkit in chosen:
                    if recorder:
                        recorder.name = toolkit.name
                    good, bad = examine(toolkit, place, prepared[toolkit.name])
                    passed, failed = passed + good, failed + bad
    print(f"interop took {time.monotonic() - begun:.0f} s")
    print(f"interop: {passed} passed, {failed} failed")
    return 1 if failed else 0


def parse_options() -> argparse.Namespace:
    names = [toolkit.name for toolkit in TOOLKITS]
    default = [toolkit.name for toolkit in TOOLKITS if toolkit.is_default]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/debug/fishplate")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/interop")
    parser.add_argument("--only", type=lambda text: text.split(","), default=default,
                        help=f"some of {','.join(names)}; default: {','.join(default)}")
    parser.add_argument("--record", type=Path, metavar="DIR",
                        help="keep the small requests of the toolkits, such as in fuzz/corpus")
    options = parser.parse_args()
    if unknown := set(options.only) - set(names):
        parser.error(f"no such toolkit: {', '.join(sorted(unknown))}")
    if not options.binary.exists():
        parser.error(f"{options.binary} is not there: cargo build -p fishplate")
    options.binary = options.binary.resolve()
    options.cache = options.cache.resolve()
    return options


@contextlib.contextmanager
def server(binary: Path, scratch: Path, recorder: Recorder | None):
    """A server of our services on a free port; gives the address of each service."""
    public = ["--public-url", recorder.url] if recorder else []
    listen = f"127.0.0.1:{free_port() if recorder else 0}"
    files = [str(HERE / "services" / f"{service}.toml") for service in FILES]
    files += [str(ROOT / "examples" / f"{service}.toml") for service in EXAMPLES]
    # The workflow finds our Python package there.
    environment = os.environ | {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    functions = [word for service in FUNCTIONS for word in ("--builtin", service)]
    with open(scratch / "server.log", "w+") as log:
        process = subprocess.Popen(
            [str(binary), "serve", "--listen", listen, *public, "--data", str(scratch / "data"),
             "--allow-private", *functions, *files],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, env=environment)
        try:
            lines = [process.stdout.readline().split() for _ in (*files, *FUNCTIONS)]
            if not all(len(line) == 2 for line in lines):
                log.seek(0)
                sys.exit(f"interop: the server did not start:\n{log.read()}")
            if recorder:
                recorder.forward_to(f"http://{listen}")
            urls = dict(lines)
            above = urls[FILES[0]].rsplit("/", 1)[0]
            yield urls | {name: f"{above}/{name}" for name in ALWAYS}
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextlib.contextmanager
def asking_server(binary: Path, scratch: Path):
    """A server that asks who calls; gives its address, and what logs in there."""
    data, password = ["--data", str(scratch / "asking")], "correct-horse&battery"

    def operate(*words: str, input: str | None = None) -> str:
        return subprocess.run([str(binary), *words, *data], input=input, text=True, check=True,
                              stdout=subprocess.PIPE).stdout.strip()

    operate("user", "add", "alice", "--password-stdin", input=password)
    token, digest_token = (operate("token", "create", "--user", "alice", *more) for more in ([], ["--digest"]))
    with open(scratch / "asking.log", "w") as log:
        process = subprocess.Popen(
            [str(binary), "serve", "--listen", "127.0.0.1:0", "--login", "--open-descriptions", *data,
             str(HERE / "services/arithmetic-test.toml")],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True)
        try:
            _, url = process.stdout.readline().split()
            yield {"INTEROP_LOGIN_URL": f"{url}?wsdl", "INTEROP_LOGIN_PASSWORD": password,
                   "INTEROP_LOGIN_TOKEN": token, "INTEROP_LOGIN_DIGEST_TOKEN": digest_token}
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextlib.contextmanager
def pipe_server(binary: Path, scratch: Path, toolkits: list[Toolkit]):
    """A server of the Pipe Problem's services, if one of the toolkits looks at them; gives its address, or why there is none."""
    if not any(set(PIPE_CHECKS) & set(toolkit.checks()) for toolkit in toolkits):
        yield {}
        return
    environment = os.environ | {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    missing = [program for program in PIPE_PROGRAMS if not shutil.which(program, path=environment["PATH"])]
    if missing:
        yield {"INTEROP_PIPE_MISSING": f"{', '.join(missing)} is not there; examples/pipe/install.sh installs it"}
        return
    files = sorted(str(path) for path in (ROOT / "examples/pipe/problem/sites").glob("*/*.toml"))
    with open(scratch / "pipe.log", "w") as log:
        process = subprocess.Popen(
            [str(binary), "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "pipe"), *files],
            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, env=environment)
        try:
            _, url = process.stdout.readline().split()
            yield {"INTEROP_PIPE_URL": url.rsplit("/", 1)[0]}
        finally:
            process.terminate()
            process.wait(timeout=30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def origin(directory: Path):
    """Another server that has these files: what the services fetch by reference."""
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def cutter(url: str):
    """Another way to the server, on which connections break in the middle of what it says."""
    host, port = urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        asking = asyncio.create_task(copied(reader, to_server, None))
        await copied(from_server, writer, CUT)
        asking.cancel()
        for end in (to_server, writer):
            end.transport.abort()

    async def copied(source: asyncio.StreamReader, to: asyncio.StreamWriter, most: int | None) -> None:
        with contextlib.suppress(ConnectionError):
            while (most is None or most > 0) and (data := await source.read(1 << 16)):
                to.write(data)
                await to.drain()
                most = None if most is None else most - len(data)

    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def write_payloads(directory: Path) -> Path:
    """The files to send."""
    directory.mkdir(exist_ok=True)
    for size in (*SIZES, LARGE):
        path = directory / f"{size}.bin"
        if not path.exists() or path.stat().st_size != size:
            path.write_bytes(payload(size))
    return directory


def gather(options: argparse.Namespace, toolkits: list[Toolkit], urls: dict[str, str], payloads: Path,
           origin_url: str, cutter_url: str, login: dict[str, str]) -> Place:
    """The WSDLs as fetched, and what else clients are given."""
    wsdl, url = {}, {}
    for name in dict.fromkeys(name for toolkit in toolkits for name in toolkit.descriptions):
        service, query = DESCRIPTIONS[name]
        wsdl[name], url[name] = options.cache / f"{name}.wsdl", f"{urls[service]}?{query}"
        with urllib.request.urlopen(url[name], timeout=30) as answer:
            wsdl[name].write_bytes(answer.read())
    # What getMatrix gives, little-endian: our own client gets it in binary.
    matrix = payloads / "matrix.bin"
    run([str(options.binary), "call", urls["matrix"], "--operation", "getMatrix", "n=50", f"out:matrix={matrix}"])
    return Place(options.cache, options.binary, wsdl, url, payloads, origin_url, cutter_url, login)


def payload(size: int) -> bytes:
    """All byte values, then noise."""
    return (bytes(range(256)) + random.Random(size).randbytes(size))[:size]


@contextlib.contextmanager
def preparations(toolkits: list[Toolkit], place: Place):
    """Each toolkit is installed while the ones before it are examined; gives what is to be waited for."""
    worker = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    try:
        yield {toolkit.name: worker.submit(toolkit.prepare, place) for toolkit in toolkits}
    finally:
        worker.shutdown(cancel_futures=True)


def examine(toolkit: Toolkit, place: Place, prepared: concurrent.futures.Future) -> tuple[int, int]:
    """Runs one toolkit's client; how many checks passed and failed."""
    print(toolkit.name, flush=True)
    begun = time.monotonic()
    due = toolkit.checks()
    try:
        prepared.result()
    except PreparationFailed as problem:
        print(f"  not ok: {problem}")
        return 0, len(due)
    urls = [place.url[name] for name in toolkit.descriptions]
    command = [*toolkit.command(place), *urls, str(place.payloads)]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace",
                              env={**os.environ, "INTEROP_ORIGIN": place.origin, "INTEROP_CUTTER": place.cutter,
                                   **place.login, **toolkit.environment},
                              timeout=CLIENT_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as problem:
        print(f"  not ok: the client hung; it had said: {problem.stdout!r}")
        return 0, len(due)
    good = {line[3:] for line in done.stdout.splitlines() if line.startswith("ok ")}
    skipped = set()
    for line in done.stdout.splitlines():
        check, _, why = line.removeprefix("skipped ").partition(": ")
        if line.startswith("skipped ") and check in toolkit.optional:
            skipped.add(check)
            print(f"skipped: {toolkit.name} {check}: {why}", flush=True)  # as tests say it, for .ci/run
        else:
            say(line)
    due = [check for check in due if check not in skipped]
    left_out = [check for check in due if check not in good]
    reported = "\n".join(line for line in done.stdout.splitlines() if line.startswith("not ok "))
    for check in left_out:
        if f"not ok {check}:" not in reported:
            say(f"not ok {check}: not reported")
    if left_out or done.returncode != 0:
        say(done.stderr.strip().replace("\n", "\n  "))
    print(f"  {len(due) - len(left_out)} of {len(due)}, {time.monotonic() - begun:.0f} s", flush=True)
    crashed = 0 if left_out or done.returncode == 0 else 1
    return len(due) - len(left_out), len(left_out) + crashed


if __name__ == "__main__":
    sys.exit(main())

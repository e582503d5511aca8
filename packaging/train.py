#!/usr/bin/env python3
"""What programs with counters are run with, so that the compiler learns which of their code is hot.

`train.py [--quick] DIRECTORY`: the directory has `fishplate`, and of the benches `matrix-client`, `limit-server` and
`limit-client`. What is not called here is taken for cold, and compiled to be small: what users do often and wait for,
belongs here. Nothing is measured. With `--quick` there are a hundredth of the calls, to see whether all of it works.
"""

import argparse
import http.client
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

import machine  # noqa: E402
from server import JSON, SOAP, envelope, self_signed  # noqa: E402

PACKAGINGS = ("xml", "base64", "mtom", "swa", "dime")
# Of n by n matrices: how many calls. Many small ones, or the loops over a large one's numbers alone are what is hot.
CALLS = {10: 8000, 50: 2000, 500: 5, 1000: 1}
LARGE = 16 << 20
COPY = 'name = "copy"\ncommand = "/bin/cp [in file data:raw] [out file copy:raw]"\n'
ADD = 'name = "add"\ncommand = "/usr/bin/expr [in val x:int] + [in val y:int] > [out file sum:int]"\n'
TRUE = 'name = "true"\ncommand = "/bin/true"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    programs, divisor = options.directory.resolve(), 100 if options.quick else 1
    with tempfile.TemporaryDirectory(prefix="train-") as scratch:
        place = Path(scratch)
        for step in (functions, matrices, limits, services, encrypted, streams, references):
            print(f"training: {step.__name__}", flush=True)
            (place / step.__name__).mkdir()
            step(programs, place / step.__name__, divisor)


def functions(programs: Path, place: Path, divisor: int) -> None:
    """Many small calls at once, from a load generator that is the same program."""
    command = [programs / "fishplate", "quake", "run", ROOT / "benches/quake/function.toml", "--report", place / "report",
               "--set", f"workload.requests={100_000 // divisor}", "--set", "workload.warm_up=0"]
    run(command, PATH=f"{programs}:/usr/bin:/bin")


def matrices(programs: Path, place: Path, divisor: int) -> None:
    with offering(programs, place, "--builtin", "matrix") as base:
        for packaging in PACKAGINGS:
            drive([programs / "matrix-client", packaging], f"{base}/matrix", divisor)


def limits(programs: Path, place: Path, divisor: int) -> None:
    """What servers are measured against, compiled alike."""
    for kind in ("http-whole", "http-stream", "tcp"):
        command = [programs / "limit-server", kind, "127.0.0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            drive([programs / "limit-client", kind.partition("-")[0]], f"http://127.0.0.1:{server.stdout.readline().strip()}/", divisor)
            server.terminate()


def services(programs: Path, place: Path, divisor: int) -> None:
    """Programs: called, spawned and asked for, over SOAP and as OGC API - Processes; and what a browser gets."""
    files = []
    for name, text in (("copy", COPY), ("add", ADD), ("true", TRUE)):
        files.append(place / f"{name}.toml")
        files[-1].write_text(text)
    with offering(programs, place, *files) as base:
        numbers = "<t:x>1</t:x><t:y>2</t:y>"
        execution = json.dumps({"inputs": {"x": 1, "y": 2}}).encode()
        at_once([
            [("POST", "/true", envelope("true", "call"), SOAP)] * (400 // divisor),
            [("POST", "/add", envelope("add", "call", numbers), SOAP)] * (100 // divisor),
            [("POST", "/ogc/processes/add/execution", execution, JSON)] * (100 // divisor),
            [("GET", path, b"", {}) for path in ("/", "/add", "/add?wsdl", "/ogc/processes/add", "/ogc/jobs") * 10],
        ] * 4, base)
        file = place / "file"
        file.write_bytes(bytes(range(256)) * 4096)
        for packaging in PACKAGINGS:
            for _ in range(5):
                fishplate(programs, "call", f"{base}/copy", f"data:{file}", f"out:copy={place / 'back'}", "--packaging", packaging)
        for _ in range(5):
            job = fishplate(programs, "spawn", f"{base}/add", "x=1", "y=2").split()[-1]
            for words in (("wait",), ("status",), ("results",), ("log",)):
                fishplate(programs, words[0], f"{base}/add", job)
            fishplate(programs, "jobs", f"{base}/add")


def encrypted(programs: Path, place: Path, divisor: int) -> None:
    """Over TLS: small calls over connections that stay and that are new, and a file sent and given."""
    service = place / "copy.toml"
    service.write_text(COPY)
    file = place / "file"
    file.write_bytes(bytes(LARGE // divisor))
    certificate, key = self_signed(place)
    with offering(programs, place, service, "--builtin", "matrix", "--tls-cert", certificate, "--tls-key", key) as base:
        add = ("POST", "/matrix", envelope("matrix", "add", "<t:x>1</t:x><t:y>2</t:y>"), SOAP)
        for calls in (4000, *[100] * 5):
            at_once([[add] * (calls // divisor)] * 4, base, certificate)
        for _ in range(3):
            fishplate(programs, "call", f"{base}/copy", f"data:{file}", f"out:copy={place / 'back'}", "--cacert", certificate)


def streams(programs: Path, place: Path, divisor: int) -> None:
    """Bytes that are made while they are sent, and read while they come."""
    with offering(programs, place, "--builtin", "stream", "--builtin", "matrix") as base:
        for packaging in PACKAGINGS:
            give = [programs / "fishplate", "call", f"{base}/stream", f"n={LARGE // divisor}", "out:data=-", "--packaging", packaging]
            with subprocess.Popen(give, stdout=subprocess.PIPE) as giving:
                run([programs / "fishplate", "call", f"{base}/matrix", "--operation", "checksum", "data:-", "--packaging", packaging],
                    stdin=giving.stdout)


def references(programs: Path, place: Path, divisor: int) -> None:
    """A file that a server fetches from another's pool, delivers, and gives."""
    service = place / "copy.toml"
    service.write_text(COPY)
    file = place / "file"
    file.write_bytes(bytes(LARGE // divisor))
    with offering(programs, place / "near", service, "--allow-private") as near, \
            offering(programs, place / "far", service, "--allow-private") as far:
        for _ in range(3):
            url = json.loads(fishplate(programs, "put", file, "--to", f"{near}/copy", "--json"))["url"]
            told = fishplate(programs, "call", f"{far}/copy", f"data@{url}", "ref:copy", "--json")
            fishplate(programs, "get", json.loads(told)["outputs"]["copy"]["url"], "--output", place / "back")
            (place / "back").unlink()


@contextmanager
def offering(programs: Path, place: Path, *words: object) -> Iterator[str]:
    """A server, by its address. All of its processes end by themselves: one that is killed while it adds its counters to
    those of the others spoils them."""
    data = place / "data"
    data.mkdir(parents=True)
    command = [programs / "fishplate", "serve", *words, "--listen", "127.0.0.1:0", "--data", data, "--log", "warn"]
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        told = server.stdout.readline().split()
        if not told:
            sys.exit("training: the server did not start")
        try:
            yield told[-1].rpartition("/")[0]
        finally:
            server.terminate()
            server.wait(60)
            ended = time.monotonic() + 60
            while machine.processes_with(str(data)) and time.monotonic() < ended:
                time.sleep(0.1)


def drive(client: list[object], url: str, divisor: int) -> None:
    """Has a client of the benches make its calls, and lets it end by itself: a killed one counts nothing."""
    lines = [f"{url} {operation} {n} {count // divisor}"
             for operation in ("echo", "getMatrix") for n, count in CALLS.items()]
    done = run(client, input="\n".join([*lines, ""]))
    assert all(json.loads(line)["equal"] for line in done.splitlines()), done


def at_once(clients: Iterable[list[tuple[str, str, bytes, dict[str, str]]]], base: str,
            certificate: Path | None = None) -> None:
    """Each client's requests over a connection of its own, one after the other."""
    address = urllib.parse.urlsplit(base).netloc
    trusted = ssl.create_default_context(cafile=certificate) if certificate else None
    failed = []

    def ask(requests: list[tuple[str, str, bytes, dict[str, str]]]) -> None:
        connection = http.client.HTTPSConnection(address, context=trusted) if trusted else http.client.HTTPConnection(address)
        for method, path, body, headers in requests:
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                if answer.status >= 300:
                    failed.append(f"{method} {path}: {answer.status} {answer.read()[:500]!r}")
                    return
                answer.read()

    threads = [threading.Thread(target=ask, args=[requests]) for requests in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit("\n".join(failed))


def fishplate(programs: Path, *words: object) -> str:
    return run([programs / "fishplate", *words])


def run(command: list[object], stdin: object = None, input: str | None = None, **environment: str) -> str:
    words = [str(word) for word in command]
    given = {"input": input} if input is not None else {"stdin": stdin or subprocess.DEVNULL}
    done = subprocess.run(words, capture_output=True, text=True, env=environment or None, check=False, **given)
    if done.returncode:
        sys.exit(f"training: {' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()

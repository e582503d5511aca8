"""A server of one's own on a free port, and the requests that are sent to it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import machine

XML = "text/xml; charset=utf-8"
SOAP = {"Content-Type": XML, "SOAPAction": '""'}
JSON = {"Content-Type": "application/json"}


@dataclass
class Server:
    pid: int
    url: str
    data: Path

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.url).hostname

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.url).port

    @property
    def path(self) -> str:
        return urllib.parse.urlsplit(self.url).path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def supervisors(self) -> list[int]:
        return [pid for pid in machine.processes_with(str(self.data)) if pid != self.pid]

    def supervisor(self) -> int:
        """The supervisor whose parent is none of them."""
        all_of_them = self.supervisors()
        return next(pid for pid in all_of_them if int(machine.stat(pid)[1]) not in all_of_them)

    def used(self) -> float:
        return machine.used([self.pid, *self.supervisors()])

    @property
    def ogc(self) -> str:
        """Where it speaks OGC API - Processes."""
        return self.url.rpartition("/")[0] + "/ogc"

    def execution(self) -> str:
        """Where its process is run."""
        return f"{self.ogc}/processes/{self.name}/execution"

    def post(self, verb: str, children: str = "") -> str:
        request = urllib.request.Request(self.url, envelope(self.name, verb, children), SOAP)
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    def write_post(self, to: Path, verb: str, children: str = "") -> Path:
        """A whole request, for those who send it as it is."""
        return write_post(to, self.url, envelope(self.name, verb, children), SOAP)

    def write_get(self, to: Path, path: str) -> Path:
        to.write_text(f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n", newline="")
        return to


def write_post(to: Path, url: str, body: bytes, headers: dict[str, str]) -> Path:
    """A whole request, for those who send it as it is."""
    parts = urllib.parse.urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}",
             *(f"{name}: {value}" for name, value in headers.items()), f"Content-Length: {len(body)}", "", ""]
    to.write_bytes("\r\n".join(lines).encode() + body)
    return to


def envelope(service: str, verb: str, children: str = "") -> bytes:
    return (f'<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body>'
            f'<t:{verb} xmlns:t="urn:fishplate:{service}">{children}</t:{verb}>'
            f"</S:Body></S:Envelope>").encode()


@contextlib.contextmanager
def serving(binary: Path, scratch: Path, name: str, description: str, *more: str):
    """Serves one service with the server's defaults and these options, and ends all that it left running."""
    place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
    file = place / f"{name}.toml"
    file.write_text(description)
    with serving_words(binary, place, [file, *more]) as server:
        yield server


@contextlib.contextmanager
def serving_functions(binary: Path, scratch: Path, *names: str):
    """Serves functions that come with the server, likewise."""
    place = Path(tempfile.mkdtemp(prefix=f"{names[0]}-", dir=scratch))
    words = [word for name in names for word in ("--builtin", name)]
    with serving_words(binary, place, words) as server:
        yield server


@contextlib.contextmanager
def serving_words(binary: Path, place: Path, words: list[object]):
    data = place / "data"
    data.mkdir()
    with open(place / "server.log", "w+") as log:
        command = [binary, "serve", *words, "--listen", "127.0.0.1:0", "--data", data, "--log", "warn"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=log, text=True)
        try:
            words = process.stdout.readline().split()
            if len(words) != 2:
                log.seek(0)
                sys.exit(f"bench: the server did not start:\n{log.read()}")
            server = Server(process.pid, words[1], data)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
            end_supervisors(data)


def end_supervisors(data: Path) -> None:
    """Idle supervisors go by themselves after a while; the next measurement does not wait."""
    for _ in range(100):
        left = machine.processes_with(str(data))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
    sys.exit(f"bench: supervisors do not end: {left}")


def self_signed(place: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, and its key."""
    certificate, key = place / "certificate.pem", place / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key

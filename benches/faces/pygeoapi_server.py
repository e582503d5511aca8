"""pygeoapi as its container starts it: gunicorn with four workers of gevent."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import machine
from drivers import end_with_us
from preparation import venv

PYGEOAPI = "0.21.0"
# `packaging` is what gunicorn's worker of gevent imports, and does not ask for.
REQUIREMENTS = (f"pygeoapi=={PYGEOAPI}", "gunicorn==27.0.1", "gevent==26.9.0", "packaging==26.3")
WORKERS = 4
START = 120  # seconds


@dataclass
class Peer:
    """A server of pygeoapi's with one process."""

    url: str
    master: int

    def execution(self) -> str:
        return f"{self.url}/processes/add/execution"

    def processes(self) -> list[int]:
        return [self.master, *machine.children_of([self.master])]


def python(cache: Path) -> Path:
    """A Python with pygeoapi, installed if it is not there."""
    return venv(cache / f"pygeoapi-{PYGEOAPI}", *REQUIREMENTS)


@contextlib.contextmanager
def serving(python: Path, scratch: Path, program: Path):
    """Serves the program. Jobs are not kept, as where nothing is said of them."""
    place = Path(tempfile.mkdtemp(prefix="pygeoapi-", dir=scratch))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    configuration, api = place / "pygeoapi.yml", place / "openapi.yml"
    configuration.write_text(json.dumps(configured(f"http://{address}")))
    environment = os.environ | {
        "PYGEOAPI_CONFIG": str(configuration), "PYGEOAPI_OPENAPI": str(api), "BENCH_PROGRAM": str(program),
        "PYTHONPATH": str(Path(__file__).parent)}
    subprocess.run([python.parent / "pygeoapi", "openapi", "generate", configuration, "--output-file", api],
                   env=environment, check=True, capture_output=True)
    command = [python, "-m", "gunicorn", "--workers", str(WORKERS), "--worker-class", "gevent", "--timeout", "6000",
               "--bind", address, "--name", "pygeoapi", "pygeoapi.flask_app:APP"]
    with open(place / "server.log", "w+") as log:
        process = subprocess.Popen(command, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   preexec_fn=end_with_us)
        try:
            peer = Peer(f"http://{address}", process.pid)
            if not answers(peer, process):
                log.seek(0)
                sys.exit(f"bench: pygeoapi did not start:\n{log.read()[-3000:]}")
            yield peer
        finally:
            process.terminate()
            process.wait(timeout=30)


def answers(peer: Peer, process: subprocess.Popen) -> bool:
    """Whether each of its workers is there, in the end."""
    until = time.monotonic() + START
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            with urllib.request.urlopen(f"{peer.url}/conformance?f=json") as answer:
                if answer.status == 200 and len(peer.processes()) == WORKERS + 1:
                    return True
        time.sleep(0.2)
    return False


def configured(url: str) -> dict:
    """What its quick start has, without what is no process. (JSON is YAML.)"""
    told = {"title": "bench", "description": "bench", "keywords": ["bench"], "keywords_type": "theme",
            "terms_of_service": url, "url": url}
    return {
        "server": {"bind": {"host": "127.0.0.1", "port": 0}, "url": url, "mimetype": "application/json; charset=UTF-8",
                   "encoding": "utf-8", "languages": ["en-US"], "limits": {"default_items": 10, "max_items": 50},
                   "map": {"url": url, "attribution": "none"}},
        "logging": {"level": "ERROR"},
        "metadata": {"identification": told, "license": {"name": "none", "url": url}, "provider": {"name": "bench", "url": url},
                     "contact": {"name": "bench"}},
        "resources": {"add": {"type": "process", "processor": {"name": "pygeoapi_program.ProgramProcessor"}}},
    }

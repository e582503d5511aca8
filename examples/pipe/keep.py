#!/usr/bin/env python3
"""Leaves the services of the demo up, for a look in a browser, until Ctrl-C: the programs of the pipe, the services of the Pipe Problem, all on
one server here, and some small ones.
A job or two are there already."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from pipedemo import chain, process  # noqa: E402
from pipedemo.case import Case  # noqa: E402
from pipedemo.runner import Services  # noqa: E402
from pipedemo.server import Server, fishplate_binary  # noqa: E402

PORT = 8080  # if nobody has it
EXAMPLES = ("arithmetic/arithmetic", "arrays/smooth", "files/sort", "progress/countdown")


class KeptServer(Server):
    """A server at the address that its users know."""

    def __init__(self, *words, port: int):
        super().__init__(*words)
        self.listen = f"127.0.0.1:{port}"


def free_port() -> int:
    """The usual one, or any."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", PORT))
            return PORT
        except OSError:
            return 0


def spawn(binary: Path, words: list[str]) -> None:
    """Begins a job, which the page of jobs then shows."""
    said = subprocess.run([str(binary), "spawn", *words], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise process.Failed(said.stderr.strip())


def keep(binary: Path) -> None:
    # Of `t4-to-t10` there are two; that of the Problem keeps cracks too.
    found = [*(HERE / "services").glob("*.toml"), *(HERE / "problem/sites").glob("*/*.toml")]
    service_files = sorted({path.stem: path for path in found}.values())
    service_files += [ROOT / f"examples/{name}.toml" for name in EXAMPLES]
    # As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH.
    environment = os.environ | {"PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="fishplate-pipe-") as folder:
        with KeptServer(binary, service_files, Path(folder), environment, port=free_port()) as server:
            mesher = Services(binary, server.urls).words(chain.surface_mesher(Case()))
            spawn(binary, [word for word in mesher[2:] if not word.startswith("out:")])
            spawn(binary, [server.urls["smooth"], f"grid={[[x * y % 7 for x in range(24)] for y in range(24)]}", "sweeps=2"])
            page = server.urls["smooth"].rsplit("/", 1)[0]
            print(f"The services are at {page}/ for a browser, their jobs at {page}/ogc/jobs. Ctrl-C ends them.", flush=True)
            try:
                server.process.wait()
            finally:
                process.undisturbed()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fishplate", type=Path, help="the binary (FISHPLATE, target/release, target/debug, then PATH)")
    chosen = parser.parse_args()
    return process.main("keep", lambda: keep(fishplate_binary(chosen.fishplate)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SystemExit as end:
        # Ctrl-C is how it is meant to end.
        sys.exit(0 if end.code == 128 + signal.SIGINT else end.code)

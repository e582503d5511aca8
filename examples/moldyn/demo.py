#!/usr/bin/env python3
"""MolDyn across two sites: an MPI program that knows nothing of the web, compiled once and served by two servers that speak TLS. The
ranks of both pass messages through the servers' ports. Prints the energy beside the published one."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "pipe"))

from pipedemo import process  # noqa: E402
from pipedemo.process import Failed  # noqa: E402
from pipedemo.server import Server, fishplate_binary  # noqa: E402

PUBLISHED = {8: 1731.4306625334357, 13: 7397.392307839352}
"""The kinetic energy by which Java Grande's MolDyn is validated, by cells in each direction."""
CLOSE = 1e-10  # of the energy: ranks sum up in another order than one
STARTED = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"[{time.monotonic() - STARTED:5.1f} s] {text}", file=sys.stderr, flush=True)


def compile_program(binary: Path, folder: Path) -> Path:
    """moldyn.c for the MPI standard's ABI, linked to the library beside the binary."""
    program, library = folder / "moldyn", binary.with_name("libmpi_abi.so")
    if not library.exists():
        raise Failed(f"{library} is missing: please build it beside the program (cargo build [--release] --package fishplate-mpi)")
    command = ["cc", "-O2", "-I", ROOT / "crates/mpi/include", HERE / "moldyn.c", library, "-lm", "-o", program]
    ran(command, "compiling moldyn.c")
    return program


def certificate(folder: Path) -> tuple[Path, Path]:
    """One for both sites, which is its own authority; and its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=demo", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    ran([*command, "-keyout", key, "-out", made], "making a certificate")
    return made, key


def ran(command: list, what: str) -> None:
    """Runs a command that succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise Failed(f"{what} needs {command[0]}: apt install {'gcc libc6-dev' if command[0] == 'cc' else command[0]}") from None
    if done.returncode:
        raise Failed(f"{what} failed: {done.stderr}")


def site(name: str, binary: Path, folder: Path, options: list) -> Server:
    """A server with a directory, a copy of the program and a port of its own."""
    own = folder / name
    own.mkdir()
    for file in (folder / "moldyn", HERE / "moldyn.toml"):
        shutil.copy(file, own)
    return Server(binary, [own / "moldyn.toml"], own, os.environ, options)


def energy(said: str) -> float:
    """What rank 0 printed."""
    for line in said.splitlines():
        label, _, value = line.partition("ek ")
        if label in ("", "[0] ") and value:
            return float(value)
    raise Failed(f"there is no energy in what the program printed: {said!r}")


def checked(found: float, cells: int) -> str:
    """The energy beside the published one, if there is one."""
    published = PUBLISHED.get(cells)
    if published is None:
        return f"ek {found!r}"
    error = abs(found / published - 1)
    if error > CLOSE:
        raise Failed(f"ek is {found!r}, but {published!r} is published")
    return f"ek {found!r}, published {published!r}: equal to {error:.0e}"


def demo(chosen: argparse.Namespace) -> None:
    """Runs the demo in a temporary directory that goes with it."""
    binary = fishplate_binary(chosen.fishplate)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fishplate-moldyn-")))
        say("compiling moldyn.c, an MPI program, for the ABI of the MPI standard")
        compile_program(binary, folder)
        made, key = certificate(folder)
        tls = ["--tls-cert", made, "--tls-key", key, "--rank-ca", made]
        urls = []
        for name in ("here", "there"):
            server = stack.enter_context(site(name, binary, folder, tls))
            urls.append(server.urls["moldyn"])
            say(f"site {name!r}: {urls[-1]}, its only port")
        stack.callback(process.undisturbed)
        hosts = ",".join(f"{url}:{chosen.ranks}" for url in urls)
        say(f"{2 * chosen.ranks} ranks, half of them at each site, {4 * chosen.cells**3:,} particles, 50 steps")
        command = [binary, "run", "--hosts", hosts, f"mm={chosen.cells}"]
        say(f"  fishplate run --hosts {hosts} mm={chosen.cells}")
        out, err = folder / "out", folder / "err"
        environment = os.environ | {"FISHPLATE_CA_FILE": str(made)}
        begun = time.monotonic()
        code = process.run(command, folder, out, err, environment)
        took = time.monotonic() - begun
        if code:
            raise Failed(f"fishplate run ended with {code}\n{process.tail(err)}")
        for line in err.read_text().splitlines():
            say(f"  {line}")
        print(f"{checked(energy(out.read_text()), chosen.cells)}; {took:.1f} s")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--cells", type=int, default=13, help="in each direction: 4 * CELLS^3 particles (%(default)s)")
    add("--ranks", type=int, default=2, help="at each site (%(default)s)")
    add("--fishplate", type=Path, help="the binary (FISHPLATE, target/release, target/debug, then PATH)")
    chosen = parser.parse_args()
    if chosen.cells < 1 or not 1 <= chosen.ranks <= 8:
        parser.error("--cells must be at least 1, --ranks from 1 to 8")
    return chosen


if __name__ == "__main__":
    sys.exit(process.main("demo", lambda: demo(options())))

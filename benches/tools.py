"""What the measurements are made with: found, built or fetched once, before anything is timed."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import preparation

ROOT = Path(__file__).resolve().parent.parent
NATIVE = Path(__file__).parent / "native"
K6 = "v1.8.1"


class Tools:
    """Paths of the programs, and a scratch directory on the disk that is measured."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, binary: Path, cache: Path, scratch: Path) -> None:
        if not binary.exists():
            sys.exit(f"bench: {binary} is not there: cargo build --release -p fishplate")
        self.root, self.binary, self.scratch = ROOT, binary.resolve(), scratch
        self.cargo = os.environ.get("CARGO", "cargo")
        self.cache = cache
        cache.mkdir(parents=True, exist_ok=True)
        self.bare, self.caller = self.compiled("bare"), self.compiled("caller")
        self.exit = self.compiled("exit", "-nostdlib", "-static")
        self.wrk, self.curl = found("wrk", "wrk"), found("curl", "curl")

    def compiled(self, name: str, *more: str) -> Path:
        """A program of `native/`."""
        source, program = NATIVE / f"{name}.c", self.cache / name
        command = ["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-pthread", *more, "-o", program,
                   source]
        subprocess.run(command, check=True)
        return program

    def nginx(self) -> Path:
        """Debian's nginx, unpacked beside the build: installed, it would start to serve."""
        if installed := which("nginx"):
            return installed
        unpacked = self.cache / "nginx"
        program = unpacked / "usr/sbin/nginx"
        if not program.exists():
            subprocess.run(["apt-get", "-qq", "download", "nginx"], check=True, cwd=self.cache)
            package = next(self.cache.glob("nginx_*.deb"))
            subprocess.run(["dpkg", "--extract", package, unpacked], check=True)
        return program

    def k6(self) -> Path:
        """Built from its source, of the version named here."""
        program = self.cache / "k6"
        if not program.exists():
            subprocess.run([found("go", "golang"), "install", f"go.k6.io/k6@{K6}"], check=True,
                           env={**os.environ, "GOBIN": str(self.cache.resolve())})
        return program


def which(command: str) -> Path | None:
    program = shutil.which(command, path=os.environ["PATH"] + os.pathsep + "/usr/sbin")
    return Path(program) if program else None


def found(command: str, package: str) -> Path:
    """A command, whose package is installed if it is missing."""
    if not which(command):
        preparation.install_packages({package})
    return which(command) or sys.exit(f"bench: the package {package} has no command {command}")

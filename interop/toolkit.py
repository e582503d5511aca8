"""What a toolkit is to `run.py`, and where things are during a run."""

import hashlib
import os
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

import preparation

HERE = Path(__file__).resolve().parent

SIZES = (0, 1, 8191, 8192, 8193, 1 << 20)  # bytes of the files that go through every check
LARGE = 100_000_000  # goes through `call-file` only
SEED = int(os.environ.get("FISHPLATE_TEST_SEED") or random.randrange(1 << 32))
CUT = random.Random(SEED).randrange(1_000, 4_900_000)  # bytes of an answer, of 5 MB or more, after which a connection of the cutter breaks

# What clients are given: a service and the view of its WSDL.
DESCRIPTIONS = {
    "arithmetic-test": ("arithmetic-test", "wsdl"),
    "echo-file": ("echo-file", "wsdl"),
    "echo-file-swa": ("echo-file", "wsdl&binding=swa"),
    "echo-file-dime": ("echo-file", "wsdl&binding=dime"),
    "echo-file-xdescr": ("echo-file", "wsdl&data=xdescr"),
    "session": ("session", "wsdl"),
    "matrix": ("matrix", "wsdl"),
    "matrix-binary": ("matrix", "wsdl&arrays=binary"),
    "stream": ("stream", "wsdl"),
    "stream-swa": ("stream", "wsdl&binding=swa"),
    "say": ("say", "wsdl"),
    "words": ("words", "wsdl"),
    "gallery": ("gallery", "wsdl"),
    "folders": ("folders", "wsdl"),
    "countdown": ("countdown", "wsdl"),
    "settle": ("settle", "wsdl"),
    "smooth": ("smooth", "wsdl"),
}
FILES = ("arithmetic-test", "echo-file", "say", "words", "gallery", "folders", "word-list")  # services of `services/`
EXAMPLES = ("workflow/settle", "arrays/smooth", "progress/countdown")  # of `examples/`: a workflow, what it calls, and one that tells how far it is
FUNCTIONS = ("matrix", "stream")  # services of the server itself
ALWAYS = ("session",)  # a service that every server has


@dataclass
class Place:
    """Where things are during one run."""

    cache: Path
    binary: Path
    wsdl: dict[str, Path]  # as fetched, by description
    url: dict[str, str]  # of the WSDL, by description
    payloads: Path
    origin: str  # the URL under which they can be fetched
    cutter: str  # an address by which the server is reached, but no answer arrives whole
    login: dict[str, str]  # where who calls is asked, and what logs in there, as environment variables

    def digest(self, descriptions: tuple[str, ...], *sources: Path) -> str:
        """Changes when stubs have to be made again: not when the server has another port."""
        whole = hashlib.sha256()
        for path in [*(self.wsdl[name] for name in descriptions), *sources]:
            whole.update(re.sub(rb"http://[0-9a-z.:\[\]]+/", b"http://server/", path.read_bytes()))
        return whole.hexdigest()[:16]


@dataclass
class Toolkit:
    """A toolkit that calls us, or that we call."""

    name: str
    needs: dict[str, str]  # command -> Debian package
    modes: dict[str, int]  # what the names of its checks of files begin with -> bytes of the largest
    verbs: tuple[str, ...] = ("call", "spawn")
    extra: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ("arithmetic-test", "echo-file", "matrix")
    environment: dict[str, str] = field(default_factory=dict)
    is_default: bool = True  # examined also if none is named
    optional: tuple[str, ...] = ()  # of its checks those that it may skip, with a reason

    def checks(self) -> list[str]:
        """All that its client has to report, no more and no less."""
        due = []
        for mode, largest in self.modes.items():
            due += [f"{mode}{verb}-file {size}" for verb in self.verbs for size in SIZES]
            due += [f"{mode}call-file {largest}"] if largest else []
        return [*due, *self.extra]

    def missing_packages(self) -> list[str]:
        return preparation.missing_packages(self.needs)

    def prepare(self, place: Place) -> None:
        """Installs the toolkit's libraries and makes stubs, unless they are there."""

    def command(self, place: Place) -> list[str]:
        """The client; the URLs of its descriptions and the directory of the files are added."""
        raise NotImplementedError(self.name)

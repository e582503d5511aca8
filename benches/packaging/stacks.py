"""The stacks: how each is built, its server and its client.

A server is a program that takes the host it listens on and prints its port (or its URL); a client one
that does what `drivers.py` writes to its stdin. Stacks with the same server command share a server.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import preparation
from place import HERE, ROOT, Place

OPERATIONS = ("echo", "getMatrix", "parse")
NATIVE = ROOT / "benches/native"
THREADS = 48  # of gSOAP's server: one a connection, and `small` has forty


@dataclass
class Stack:
    """A toolkit with one packaging."""

    name: str  # on the command line, and in the CSV
    title: str  # in tables
    packaging: str  # what it is compared with; "" for the limits
    operations: tuple[str, ...] = OPERATIONS
    warm: float = 0.05  # seconds before the first measurement; a JVM needs more
    path: str = "/"

    def packages(self) -> list[str]:
        """Debian packages that are missing."""
        return []

    def absent(self, place: Place) -> str:
        """Why it can't take part, or nothing."""
        return ""

    def prepare(self, place: Place) -> None:
        """Builds it, unless it is built."""

    def server(self, place: Place, host: str) -> list[str]:
        raise NotImplementedError(self.name)

    def client(self, place: Place) -> list[str]:
        raise NotImplementedError(self.name)

    def version(self, place: Place) -> str:
        return ""


class Gsoap(Stack):
    def packages(self) -> list[str]:
        missing = preparation.missing_packages({"soapcpp2": "gsoap", "cc": "gcc"})
        return missing + ([] if Path("/usr/include/stdsoap2.h").exists() else ["libgsoap-dev"])

    def prepare(self, place: Place) -> None:
        self.directory(place)

    def directory(self, place: Place) -> Path:
        return place.build("gsoap", self.make, *sorted((HERE / "gsoap").glob("*.[ch]")))

    @staticmethod
    def make(directory: Path) -> None:
        header = HERE / "gsoap/matrix.h"
        preparation.run(["soapcpp2", "-c", "-x", "-I/usr/share/gsoap/import", str(header)], directory)
        for program, stubs in (("server", "soapServer.c"), ("client", "soapClient.c")):
            preparation.run(["cc", "-std=gnu17", "-O3", "-march=native", f"-I{directory}",
                             str(HERE / f"gsoap/{program}.c"), stubs, "soapC.c", "-lgsoap", "-lpthread",
                             "-o", program], directory)

    def server(self, place: Place, host: str) -> list[str]:
        return [str(self.directory(place) / "server"), self.packaging, host, str(THREADS)]

    def client(self, place: Place) -> list[str]:
        return [str(self.directory(place) / "client"), self.packaging]

    def version(self, place: Place) -> str:
        return f"gSOAP {debian('libgsoap-dev')}"


class Zeep(Gsoap):
    """A client only: it calls gSOAP's server."""

    def packages(self) -> list[str]:
        return super().packages() + preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        super().prepare(place)
        preparation.zeep(place.interop)

    def client(self, place: Place) -> list[str]:
        wsdl = self.directory(place) / "matrix.wsdl"
        return [str(preparation.zeep(place.interop)), str(HERE / "zeep/client.py"), str(wsdl)]

    def version(self, place: Place) -> str:
        return f"zeep {preparation.ZEEP}"


@dataclass
class Limit(Stack):
    """The same bytes without SOAP."""

    operations: tuple[str, ...] = ("echo", "getMatrix")

    def prepare(self, place: Place) -> None:
        build_native()

    def server(self, place: Place, host: str) -> list[str]:
        return [str(native("limit-server")), self.name, host]

    def client(self, place: Place) -> list[str]:
        return [str(native("limit-client")), self.name.partition("-")[0]]


class Fishplate(Stack):
    """Ours: an in-process service, and a client that is a library's."""

    service = HERE / "matrix.toml"

    def absent(self, place: Place) -> str:
        missing = [path for path in (place.binary, self.service, NATIVE / "src/bin/matrix-client.rs")
                   if not path.exists()]
        return f"{missing[0].relative_to(ROOT)} is not there" if missing else ""

    def prepare(self, place: Place) -> None:
        build_native()

    def server(self, place: Place, host: str) -> list[str]:
        return [str(place.binary), "serve", str(self.service), "--listen", f"{host}:0",
                "--data", str(place.scratch / "data"), "--log", "warn"]

    def client(self, place: Place) -> list[str]:
        return [str(native("matrix-client")), self.packaging]


def build_native() -> None:
    preparation.run([os.environ.get("CARGO", "cargo"), "build", "--quiet", "--release",
                     "--package", "fishplate-benches"], ROOT)


def native(name: str) -> Path:
    return ROOT / "target/release" / name


def debian(package: str) -> str:
    """The version of an installed package."""
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True,
                          check=False)
    return done.stdout or "of unknown version"


STACKS = [
    *(Fishplate(f"fishplate-{packaging}", f"Fishplate {packaging}", packaging)
      for packaging in ("xml", "base64", "mtom", "swa", "dime")),
    Gsoap("gsoap-xml", "gSOAP XML", "xml"),
    Gsoap("gsoap-mtom", "gSOAP MTOM", "mtom"),
    Gsoap("gsoap-dime", "gSOAP DIME", "dime"),
    Zeep("zeep-xml", "zeep XML (server: gSOAP)", "xml"),
    Limit("http-whole", "HTTP echo, body read first", ""),
    Limit("http-stream", "HTTP echo, streaming", ""),
    Limit("tcp", "TCP echo", ""),
]

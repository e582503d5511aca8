"""The stacks: how each is built, its server and its client.

A server is a program that takes the host it listens on and prints its port (or its URL); a client one
that does what `drivers.py` writes to its stdin. Stacks with the same server command share a server.
"""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import preparation
from place import HERE, ROOT, Place

OPERATIONS = ("echo", "getMatrix", "parse")
NATIVE = ROOT / "benches/native"
JAVA_OPTIONS = ("-Xmx4g",)
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
class Java(Stack):
    """A server and a client in Java; the first calls only warm the compiler."""

    warm: float = 6.0

    toolkit = ""  # the directory of its sources
    artifact = ""  # whose version stands in its pom.xml

    def __post_init__(self) -> None:
        self.path = f"/{self.packaging_named()}"

    def packaging_named(self) -> str:
        """As the toolkit calls it."""
        return self.name.rpartition("-")[2]

    def packages(self) -> list[str]:
        return preparation.missing_packages(preparation.JAVA)

    def prepare(self, place: Place) -> None:
        self.directory(place)

    def sources(self) -> list[Path]:
        return [*sorted((HERE / self.toolkit).glob("*.java")), *sorted((HERE / "java").glob("*.java"))]

    def directory(self, place: Place) -> Path:
        extra = sorted((HERE / self.toolkit).glob("*.wsdd"))
        pom = HERE / self.toolkit / "pom.xml"

        def make(directory: Path) -> None:
            preparation.say("with Maven; the first time downloads libraries")
            (directory / "src").mkdir()
            (directory / "WEB-INF").mkdir()
            for source in self.sources():
                shutil.copy(source, directory / "src")
            for source in extra:
                shutil.copy(source, directory / "WEB-INF")
            shutil.copy(pom, directory)
            preparation.maven(directory)

        return place.build(self.toolkit, make, pom, *self.sources(), *extra)

    def run(self, place: Place, *words: str) -> list[str]:
        # What a toolkit writes to files (attachments, in Axis) goes where the measurement ends it.
        return ["java", *JAVA_OPTIONS, f"-Djava.io.tmpdir={place.scratch}",
                "-cp", preparation.class_path(self.directory(place)), *words]

    def server(self, place: Place, host: str) -> list[str]:
        return self.run(place, "Server", host, str(self.directory(place)))

    def client(self, place: Place) -> list[str]:
        return self.run(place, "Client", self.packaging_named())

    def version(self, place: Place) -> str:
        pom = (HERE / self.toolkit / "pom.xml").read_text()
        version = re.search(rf"<{self.artifact}>([^<]+)</", pom).group(1)
        return f"{self.title.split()[0]} {version} on {java_version()}"


class Cxf(Java):
    toolkit, artifact = "cxf", "cxf.version"


class Axis(Java):
    toolkit, artifact = "axis", "axis.version"


@dataclass
class Limit(Stack):
    """The same bytes without SOAP."""

    operations: tuple[str, ...] = ("echo", "getMatrix")

    def prepare(self, place: Place) -> None:
        build_native(place)

    def server(self, place: Place, host: str) -> list[str]:
        return [str(place.binary.with_name("limit-server")), self.name, host]

    def client(self, place: Place) -> list[str]:
        return [str(place.binary.with_name("limit-client")), self.name.partition("-")[0]]


class Fishplate(Stack):
    """Ours: an in-process service, and a client that is a library's."""

    def absent(self, place: Place) -> str:
        return "" if place.binary.exists() else f"{place.binary} is not there"

    def prepare(self, place: Place) -> None:
        build_native(place)

    def server(self, place: Place, host: str) -> list[str]:
        return [str(place.binary), "serve", "--builtin", "matrix", "--listen", f"{host}:0", "--open",
                "--data", str(place.scratch / "data"), "--log", "warn"]

    def client(self, place: Place) -> list[str]:
        return [str(place.binary.with_name("matrix-client")), self.packaging]


def build_native(place: Place) -> None:
    """The programs of the benches are beside the binary; those of packaging/pgo.sh were built with it."""
    release = ROOT / "target/release"
    if place.binary.parent == release:
        preparation.run([os.environ.get("CARGO", "cargo"), "build", "--quiet", "--release", "--package", "fishplate-benches"], ROOT)
    elif not place.binary.with_name("matrix-client").exists():
        raise preparation.PreparationFailed(f"{place.binary.parent} has no matrix-client")


@functools.cache
def java_version() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return "Java " + (re.search(r'version "([^"]+)"', told) or ["", "unknown"])[1]


def debian(package: str) -> str:
    """The version of an installed package."""
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True,
                          check=False)
    return done.stdout or "of unknown version"


STACKS = [
    *(Fishplate(f"fishplate-{packaging}", f"Fishplate {packaging}", packaging, path="/matrix")
      for packaging in ("xml", "base64", "mtom", "swa", "dime")),
    Gsoap("gsoap-xml", "gSOAP XML", "xml"),
    Gsoap("gsoap-mtom", "gSOAP MTOM", "mtom"),
    Gsoap("gsoap-dime", "gSOAP DIME", "dime"),
    Cxf("cxf-xml", "CXF XML", "xml"),
    Cxf("cxf-mtom", "CXF MTOM", "mtom"),
    Axis("axis-xml", "Axis XML", "xml"),
    Axis("axis-mime", "Axis MIME", "swa"),
    Axis("axis-dime", "Axis DIME", "dime"),
    Zeep("zeep-xml", "zeep XML (server: gSOAP)", "xml"),
    Limit("http-whole", "HTTP echo, body read first", ""),
    Limit("http-stream", "HTTP echo, streaming", ""),
    Limit("tcp", "TCP echo", ""),
]

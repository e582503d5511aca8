"""The toolkits: what each needs, how its stubs are made, and which checks it has to make."""

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import preparation
from preparation import run, say

HERE = Path(__file__).resolve().parent
SERVICES = ("arithmetic-test", "echo-file")
SIZES = (0, 1, 8191, 8192, 8193, 1 << 20)


@dataclass
class Place:
    """Where things are during one run."""

    cache: Path
    wsdl: dict[str, Path]  # as fetched, by service
    url: dict[str, str]  # of the WSDL, by service
    payloads: Path

    def digest(self, *sources: Path) -> str:
        """Changes when stubs have to be made again: not when the server has another port."""
        whole = hashlib.sha256()
        for path in [*self.wsdl.values(), *sources]:
            whole.update(re.sub(rb"http://[0-9a-z.:\[\]]+/", b"http://server/", path.read_bytes()))
        return whole.hexdigest()[:16]


@dataclass
class Toolkit:
    """A toolkit that calls us."""

    name: str
    needs: dict[str, str]  # command -> Debian package
    modes: tuple[str, ...] = ("",)
    extra: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def checks(self) -> list[str]:
        """All that its client has to report, no more and no less."""
        files = [
            f"{mode}{verb}-file {size}"
            for mode in self.modes
            for verb in ("call", "spawn")
            for size in SIZES
        ]
        return ["call", *files, "missing-job", *self.extra]

    def missing_packages(self) -> list[str]:
        return preparation.missing_packages(self.needs)

    def prepare(self, place: Place) -> None:
        """Installs the toolkit's libraries and makes stubs, unless they are there."""

    def command(self, place: Place) -> list[str]:
        raise NotImplementedError(self.name)


class Zeep(Toolkit):
    def missing_packages(self) -> list[str]:
        return preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        preparation.zeep(place.cache)

    def command(self, place: Place) -> list[str]:
        return [str(preparation.zeep(place.cache)), str(HERE / "zeep/client.py")]


class Node(Toolkit):
    version = "1.13.0"

    def prepare(self, place: Place) -> None:
        directory = place.cache / f"node-soap-{self.version}"
        self.environment["NODE_PATH"] = str(directory / "node_modules")
        done = directory / "complete"
        if not done.exists():
            say(f"installing soap {self.version} (npm)")
            directory.mkdir(parents=True, exist_ok=True)
            run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock",
                 "--prefix", str(directory), f"soap@{self.version}"])
            done.touch()

    def command(self, place: Place) -> list[str]:
        return ["node", str(HERE / "node/client.cjs")]


class Php(Toolkit):
    def missing_packages(self) -> list[str]:
        missing = super().missing_packages()
        if not missing:
            modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True)
            if "soap" not in modules.stdout.split():
                missing = ["php-soap"]
        return missing + (["php-soap"] if "php-cli" in missing else [])

    def command(self, place: Place) -> list[str]:
        return ["php", "-d", "soap.wsdl_cache_enabled=0", str(HERE / "php/client.php")]


class Gsoap(Toolkit):
    def missing_packages(self) -> list[str]:
        missing = super().missing_packages()
        return missing + ([] if Path("/usr/include/stdsoap2.h").exists() else ["libgsoap-dev"])

    def directory(self, place: Place) -> Path:
        return place.cache / "gsoap" / place.digest(HERE / "gsoap/client.cpp")

    def prepare(self, place: Place) -> None:
        directory = self.directory(place)
        if (directory / "client").exists():
            return
        say("making stubs (wsdl2h, soapcpp2) and compiling")
        shutil.rmtree(directory.parent, ignore_errors=True)
        directory.mkdir(parents=True)
        wsdls = [str(path) for path in place.wsdl.values()]
        run(["wsdl2h", "-O1", "-o", "services.h", *wsdls], directory)
        run(["soapcpp2", "-C", "-j", "-x", "-w", "-I/usr/share/gsoap/import", "services.h"], directory)
        sources = sorted(str(path.name) for path in directory.glob("*.cpp"))
        run(["c++", "-std=c++17", "-O0", "-I.", str(HERE / "gsoap/client.cpp"), *sources,
             "-lgsoap++", "-o", "client.new"], directory)
        (directory / "client.new").rename(directory / "client")

    def command(self, place: Place) -> list[str]:
        return [str(self.directory(place) / "client")]


class Cxf(Toolkit):
    def directory(self, place: Place) -> Path:
        return place.cache / "cxf" / place.digest(HERE / "cxf/pom.xml", HERE / "cxf/Client.java")

    def prepare(self, place: Place) -> None:
        directory = self.directory(place)
        if (directory / "complete").exists():
            return
        say("making stubs (wsdl2java) and compiling with Maven; the first time downloads CXF")
        shutil.rmtree(directory.parent, ignore_errors=True)
        (directory / "wsdl").mkdir(parents=True)
        for service, path in place.wsdl.items():
            shutil.copy(path, directory / "wsdl" / f"{service}.wsdl")
        shutil.copy(HERE / "cxf/pom.xml", directory)
        (directory / "src").mkdir()
        shutil.copy(HERE / "cxf/Client.java", directory / "src")
        preparation.maven(directory)

    def command(self, place: Place) -> list[str]:
        directory = self.directory(place)
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", preparation.class_path(directory), "Client"]


TOOLKITS = [
    Zeep("zeep", {}, extra=("soap12", "bad-value", "key")),
    Node("node", {"node": "nodejs", "npm": "npm"}, extra=("soap12", "bad-value")),
    Php("php", {"php": "php-cli"}, extra=("soap12", "bad-value")),
    Gsoap("gsoap", {"wsdl2h": "gsoap", "c++": "g++"}, modes=("base64 ", "mtom "), extra=("soap11",)),
    Cxf("cxf", preparation.JAVA, modes=("mtom ", "base64 "), extra=("soap12",)),
]

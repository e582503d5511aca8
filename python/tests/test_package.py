"""What `pip install .` installs, from the repository's root."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from server import BINARY, ENVIRONMENT, ROOT

import fishplate


def test_pip_installs_a_typed_package_and_the_command(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Without a network, built as `maturin develop` did, and with the command and the MPI library that are there.
    library = BINARY.with_name("libmpi_abi.so")
    environment = ENVIRONMENT | {"FISHPLATE_COMMAND": str(BINARY), "FISHPLATE_MPI_LIBRARY": str(library)}
    quick = ["--no-deps", "--no-build-isolation", "--config-settings=build-args=--profile=dev"]
    command = [*pip, *quick, "--ignore-installed", "--prefix", str(tmp_path), str(ROOT)]
    subprocess.run(command, env=environment, check=True, timeout=600)
    installed_command = str(tmp_path / "bin/fishplate")
    version_of = [installed_command, "--version"]
    said = subprocess.run(version_of, capture_output=True, text=True, check=True)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    installed = {path.name for path in (packages / "fishplate").iterdir()}
    assert {"py.typed", "_native.pyi", "_native.abi3.so", "__init__.py"} <= installed
    show = "import fishplate; print(fishplate.__file__, fishplate.__version__)"
    told = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert told.stdout.split() == [str(packages / "fishplate/__init__.py"), version]
    assert fishplate.__version__ == version
    assert said.stdout.split() == ["fishplate", version]
    assert (tmp_path / "lib/fishplate/libmpi_abi.so.1").stat().st_size == library.stat().st_size

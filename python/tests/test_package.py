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
    # Without a network, built as `maturin develop` did, and with the command that is there.
    environment = ENVIRONMENT | {"FISHPLATE_COMMAND": str(BINARY)}
    quick = ["--no-deps", "--no-build-isolation", "--config-settings=build-args=--profile=dev"]
    command = [*pip, *quick, "--target", str(tmp_path), str(ROOT)]
    subprocess.run(command, env=environment, check=True, timeout=600)
    installed_command = str(tmp_path / "bin/fishplate")
    version_of = [installed_command, "--version"]
    said = subprocess.run(version_of, capture_output=True, text=True, check=True)
    installed = {path.name for path in (tmp_path / "fishplate").iterdir()}
    assert {"py.typed", "_native.pyi", "_native.abi3.so", "__init__.py"} <= installed
    show = "import fishplate; print(fishplate.__file__, fishplate.__version__)"
    told = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert told.stdout.split() == [str(tmp_path / "fishplate/__init__.py"), version]
    assert fishplate.__version__ == version
    assert said.stdout.split() == ["fishplate", version]

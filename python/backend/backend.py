"""Builds the wheel, in which the command `fishplate` stands beside the module (PEP 517).

`pip install .` in the repository's root and in python/ both come here. The command is the one that the variable
FISHPLATE_COMMAND names (`make package` gives the static one); else it is built.
"""

import os
import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
os.chdir(PACKAGE)

import maturin  # noqa: E402
from maturin import *  # noqa: E402, F403

# `data` of [tool.maturin]: what is in scripts/ is installed as commands.
COMMANDS = PACKAGE / "command" / "scripts"
COMMANDS.mkdir(parents=True, exist_ok=True)


def build_wheel(directory, config_settings=None, metadata_directory=None):
    command = COMMANDS / "fishplate"
    try:
        shutil.copy(ready_command(), command)
        return maturin.build_wheel(directory, config_settings, metadata_directory)
    finally:
        command.unlink(missing_ok=True)


def ready_command():
    if command := os.environ.get("FISHPLATE_COMMAND"):
        return command
    build = ["cargo", "build", "--release", "--package", "fishplate"]
    subprocess.run(build, check=True, cwd=PACKAGE.parent)
    target = os.environ.get("CARGO_TARGET_DIR", PACKAGE.parent / "target")
    return Path(target) / "release" / "fishplate"

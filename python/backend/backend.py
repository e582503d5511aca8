"""Builds the wheel, in which the command `fishplate` and the MPI library stand beside the module (PEP 517).

`pip install .` in the repository's root and in python/ both come here. The command and the library are those that the
variables FISHPLATE_COMMAND (`make package` gives the static one) and FISHPLATE_MPI_LIBRARY name; else they are built.
"""

import os
import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
os.chdir(PACKAGE)

import maturin  # noqa: E402
from maturin import *  # noqa: E402, F403

# `data` of [tool.maturin]: what is in scripts/ is installed as commands, what is in data/ below the environment itself.
COMMAND = PACKAGE / "command" / "scripts" / "fishplate"
LIBRARY = PACKAGE / "command" / "data" / "lib" / "fishplate" / "libmpi_abi.so.1"
for path in (COMMAND, LIBRARY):
    path.parent.mkdir(parents=True, exist_ok=True)


def build_wheel(directory, config_settings=None, metadata_directory=None):
    try:
        for path, source in zip((COMMAND, LIBRARY), ready(), strict=True):
            shutil.copy(source, path)
        return maturin.build_wheel(directory, config_settings, metadata_directory)
    finally:
        COMMAND.unlink(missing_ok=True)
        LIBRARY.unlink(missing_ok=True)


def ready():
    given = [os.environ.get(name) for name in ("FISHPLATE_COMMAND", "FISHPLATE_MPI_LIBRARY")]
    if all(given):
        return given
    build = ["cargo", "build", "--release", "--package", "fishplate", "--package", "fishplate-mpi"]
    subprocess.run(build, check=True, cwd=PACKAGE.parent)
    release = Path(os.environ.get("CARGO_TARGET_DIR", PACKAGE.parent / "target")) / "release"
    return [given or release / built for given, built in zip(given, ("fishplate", "libmpi_abi.so"), strict=True)]

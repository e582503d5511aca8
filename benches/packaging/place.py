"""Where the peers' sources, builds and shared preparation are."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import preparation

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MATPLOTLIB = "3.11.2"  # as in examples/pipe/requirements.txt


@dataclass
class Place:
    """Where things are during one run."""

    built: Path  # below target/: nothing of it is committed
    interop: Path  # the cache of `make interop`: its toolkits serve here too
    binary: Path
    scratch: Path

    def build(self, name: str, make, *sources: Path) -> Path:
        """The directory where `make(directory)` built these sources, anew if they changed."""
        whole = hashlib.sha256()
        for source in sources:
            whole.update(source.read_bytes())
        directory = self.built / name / whole.hexdigest()[:16]
        if not (directory / "complete").exists():
            preparation.say(f"building {name}")
            shutil.rmtree(directory.parent, ignore_errors=True)
            directory.mkdir(parents=True)
            make(directory)
            (directory / "complete").touch()
        return directory

    def plot(self, script: Path, table: Path) -> None:
        """Has a script draw what is in a file, beside it."""
        python = preparation.venv(self.interop / f"matplotlib-{MATPLOTLIB}", f"matplotlib=={MATPLOTLIB}")
        subprocess.run([python, script, table, table.with_suffix(".svg")], check=True)

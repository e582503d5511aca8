"""Lets `pip install .` in the repository's root build the package in python/ (PEP 517)."""

import os
from pathlib import Path

os.chdir(Path(__file__).resolve().parents[1])

from maturin import *  # noqa: E402, F403

"""Tests of the Pipe Problem; run them in .venv, after `make .venv/vtk`: .venv/bin/python -m pytest examples/pipe/problem/tests"""

import os
import sys
from pathlib import Path

PROBLEM = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROBLEM), str(PROBLEM.parent), str(PROBLEM / "programs")]
# As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

"""Tests of the Pipe Problem's solid half; run them in .venv: .venv/bin/python -m pytest examples/pipe/problem/tests"""

import sys
from pathlib import Path

PROBLEM = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROBLEM), str(PROBLEM.parent), str(PROBLEM / "programs")]

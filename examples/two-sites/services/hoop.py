#!/usr/bin/env python3
"""Prints the mean hoop stress at the bore: hoop.py RESULT.frd INNER OUTER LENGTH"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "pipe"))

from pipedemo.case import Case
from pipedemo.stress import bore_hoop, read_frd

inner, outer, length = map(float, sys.argv[2:])
print(bore_hoop(Case(inner, outer, length), read_frd(Path(sys.argv[1]))).computed)

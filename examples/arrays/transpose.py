#!/usr/bin/env python3
"""Transposes a matrix: transpose.py IN.npy OUT.npy"""

import sys

import numpy

source, target = sys.argv[1:]
# NumPy only notes that rows are columns now: the file is in Fortran order.
with open(target, "wb") as file:
    numpy.save(file, numpy.load(source).T)

#!/usr/bin/env python3
"""Smooths a plate with a hot and a cold edge until it changes no more: settle.py SERVER [RUN [TOLERANCE]]

SERVER hosts the service `smooth` (examples/arrays). Kill it whenever you like, and start it again: it goes on.
"""

import sys
from pathlib import Path

import numpy

import fishplate

server, name, tolerance = [*sys.argv[1:], *("plate", "1e-3")[len(sys.argv) - 2 :]]
with fishplate.Run(name) as run:
    smooth = run.service(f"{server}/smooth", retries=3)
    plate = numpy.zeros((40, 40))
    plate[0], plate[-1] = 100.0, -100.0
    for sweeps in range(1000):
        smoothed = smooth(grid=plate, sweeps=25).smooth
        change = float(numpy.abs(smoothed - plate).max())
        run.progress("change", change)
        plate = smoothed
        if change < float(tolerance):
            break
    Path("plate.txt").write_text(f"{plate[1, 20]:.6f}\n")
    print(f"settled after {sweeps + 1} calls; below the hot edge it is {plate[1, 20]:.2f}")
    print(run.report())

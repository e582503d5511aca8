#!/usr/bin/env python3
"""Smooths a plate with a hot and a cold edge until it changes no more.

The server hosts the service `smooth` (examples/arrays). Kill this whenever you like, and start it again: it goes on.
"""

import argparse
import math
from pathlib import Path

import numpy

import fishplate


def settled(change: float, tolerance: float) -> float:
    """Per cent of the way to the end: the change falls as a geometric series does."""
    if change <= tolerance:
        return 100.0
    return 100.0 * math.log(100.0 / change) / math.log(100.0 / tolerance) if tolerance > 0 else 0.0


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("server", help="such as http://127.0.0.1:8080")
parser.add_argument("run", nargs="?", default="plate", help="name of the run (default: plate)")
parser.add_argument("tolerance", nargs="?", type=float, default=1e-3, help="change at which it ends (default: 0.001)")
parser.add_argument("sweeps", nargs="?", type=int, default=25, help="how often a call smooths (default: 25)")
wanted = parser.parse_args()
with fishplate.Run(wanted.run) as run:
    smooth = run.service(f"{wanted.server}/smooth", retries=3)
    plate = numpy.zeros((40, 40))
    plate[0], plate[-1] = 100.0, -100.0
    for calls in range(1, 1001):
        smoothed = smooth(grid=plate, sweeps=wanted.sweeps).smooth
        change = float(numpy.abs(smoothed - plate).max())
        run.progress("change", change)
        # As a job it tells so how far it is.
        print(f"{settled(change, wanted.tolerance):.0f} % settled", flush=True)
        plate = smoothed
        if change < wanted.tolerance:
            break
    Path("plate.txt").write_text(f"{plate[1, 20]:.6f}\n")
    report = run.report()
print(f"settled after {calls} calls; below the hot edge it is {plate[1, 20]:.2f}")
print(report)

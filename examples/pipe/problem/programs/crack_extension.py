#!/usr/bin/env python3
"""Moves a crack's front by what its stress intensities tell. Ours; no third party's.

The crack lies in the plane z = 0, in which the pipe and its loads are symmetric, so it stays there (K_II is only the
mesh's noise). Each point of the front moves along its normal by growth (K_I / largest K_I)^exponent, Paris' law. The
front may have any smooth shape: its coordinates are polynomials of its arc length, fitted to the moved points. It is
continued along its tangents into the bore, so that the geometry's wall clips it.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.polynomial import Chebyshev

DEGREE = 6
"""Of the polynomials of the front's coordinates, at most."""
POINTS = 25
"""Of the new front, its two ends in the bore included."""


class BadFront(Exception):
    """The front can't be moved; the text says why."""


def polynomial(arc: np.ndarray, values: np.ndarray, degree: int) -> Chebyshev:
    """The polynomial of that degree, or of the one that so many values can tell."""
    return Chebyshev.fit(arc, values, min(degree, len(arc) - 2), domain=(0.0, 1.0))


def advance(arc: np.ndarray, intensity: np.ndarray, growth: float, exponent: float) -> np.ndarray:
    """How far each point moves."""
    # The ends lie on a free surface, where the root of the distance is not how strains grow. Their neighbours tell K there:
    # what the polynomial has beyond them is of no use, least of all to scale the rest.
    inside = polynomial(arc[1:-1], intensity[1:-1], 4)(arc[1:-1])
    smooth = np.concatenate([inside[:1], inside, inside[-1:]])
    if smooth.max() <= 0:
        raise BadFront("K_I is nowhere positive: the crack is closed")
    return growth * (np.maximum(smooth, 0.0) / smooth.max()) ** exponent


def extension(points: np.ndarray, intensity: np.ndarray, growth: float, exponent: float) -> np.ndarray:
    """The moved front from wall to wall, POINTS - 2 points; `points` is x, y a row."""
    if len(points) < 5:
        raise BadFront(f"{len(points)} points on the front, at least 5 wanted")
    step = np.linalg.norm(np.diff(points, axis=0), axis=1)
    if (step == 0).any():
        raise BadFront("two points of the front are the same")
    arc = np.append(0.0, np.cumsum(step)) / step.sum()
    amount = advance(arc, intensity, growth, exponent)
    along = np.column_stack([polynomial(arc, values, DEGREE).deriv()(arc) for values in points.T])
    ahead = np.column_stack([along[:, 1], -along[:, 0]]) / np.linalg.norm(along, axis=1)[:, None]
    # Away from the crack, which lies between the front and the chord of its ends.
    if np.sum(ahead * (points - (points[0] + points[-1]) / 2)) < 0:
        ahead = -ahead
    moved = points + amount[:, None] * ahead
    at = np.linspace(0.0, 1.0, POINTS - 2)
    return np.column_stack([polynomial(arc, values, DEGREE)(at) for values in moved.T])


def into_bore(front: np.ndarray, mouth: float) -> np.ndarray:
    """The front with a point more at each end, on its tangent, so far in the bore that the wall clips it."""
    depth = mouth - np.hypot(*front.T).min()
    ends = []
    for first, second in ((front[0], front[1]), (front[-1], front[-2])):
        toward = (first - second) / np.linalg.norm(first - second)
        outward = first / np.hypot(*first)
        climb = toward @ outward
        if climb < 0.1:
            raise BadFront("the front does not end at the bore")
        gap = mouth - np.hypot(*first)
        ends.append(first + toward * (max(gap, 0.0) + 0.1 * depth) / climb)
    inside = np.hypot(*front.T) < mouth
    return np.vstack([ends[0], front[inside], ends[1]])


def measures(front: np.ndarray, mouth: float, outside: float) -> tuple[float, float, float]:
    """Depth, length along the bore, and the least ligament, mm; `front` goes from bore to bore."""
    radius = np.hypot(*front.T)
    angle = np.unwrap(np.arctan2(front[:, 1], front[:, 0]))
    ends = []
    for a, b in ((0, 1), (-1, -2)):
        part = (mouth - radius[b]) / (radius[a] - radius[b])
        ends.append(angle[b] + part * (angle[a] - angle[b]))
    return mouth - radius.min(), abs(ends[1] - ends[0]) * mouth, radius.min() - outside


def area(front: np.ndarray) -> float:
    """Of the polygon."""
    x, y = front.T
    return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("intensities", type=Path, help="a row a node of the front: x, y, z, K_I, K_II, K_III")
    parser.add_argument("front", type=Path, help="written: x, y of the new front a line")
    parser.add_argument("measures", type=Path, help="written: depth, length, least ligament (mm), area added (mm^2)")
    for name in ("inner", "outer", "bend", "growth", "exponent"):
        parser.add_argument(f"--{name}", type=float, required=True)
    wanted = parser.parse_args()
    try:
        table = np.loadtxt(wanted.intensities, ndmin=2)
        mouth, outside = wanted.bend - wanted.inner, wanted.bend - wanted.outer
        moved = extension(table[:, :2], table[:, 3], wanted.growth, wanted.exponent)
        front = into_bore(moved, mouth)
        depth, length, ligament = measures(front, mouth, outside)
        added = area(moved) - area(table[:, :2])
    except (BadFront, OSError, ValueError) as error:
        print(f"crack_extension: {error}", file=sys.stderr)
        return 1
    np.savetxt(wanted.front, front, fmt="%.12g")
    np.savetxt(wanted.measures, [depth, length, ligament, added], fmt="%.12g")
    print(f"the crack is {depth:.4g} mm deep and {length:.4g} mm long; {ligament:.4g} mm of the wall are left")
    return 0


if __name__ == "__main__":
    sys.exit(main())

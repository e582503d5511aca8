"""Cracks that open to a wall, against Newman and Raju: in a plate under tension, and in a cylinder's bore under pressure.

Theirs are equations fitted to finite elements, said to be within 5 % of them: for the plate J. C. Newman and I. S. Raju, An
empirical stress-intensity factor equation for the surface crack, Engineering Fracture Mechanics 15 (1981); for the cylinder
the same, Stress-intensity factors for internal surface cracks in cylindrical pressure vessels, Journal of Pressure Vessel
Technology 104 (1982), which has the pressure on the crack's sides too. Both for cracks that are no deeper than half as long.
"""

import math
from pathlib import Path

import numpy as np

PLATE = {"deep": 1.0, "half": 1 / 0.6, "thick": 2.5, "wide": 8.0, "long": 8.0}
"""Depth of the crack, half its length, the plate's thickness and half of its width and length, mm."""
TUBE = {"deep": 1.0, "half": 1 / 0.6, "thick": 2.5, "inner": 10.0, "long": 12.0}
"""The same of a tube, and its inner radius: a wall of a quarter of it, the thickest that the equation is for."""
PARTS = (
    ("at its deepest point", 80.0, 90.0, 5.0),
    ("half way to the wall", 35.0, 55.0, 5.0),
    ("near the wall", 8.0, 20.0, 5.0),
)
"""Of the front, by the ellipse's angle from the wall, degrees; and per cent that are allowed."""


def shape(angle: np.ndarray, deep: float, half: float, thick: float) -> np.ndarray:
    """What both equations have in common, at an ellipse's angle from the wall: K over stress and root of mm."""
    slim, through = deep / half, deep / thick
    q = 1 + 1.464 * slim**1.65
    m1 = 1.13 - 0.09 * slim
    m2 = -0.54 + 0.89 / (0.2 + slim)
    m3 = 0.5 - 1 / (0.65 + slim) + 14 * (1 - slim) ** 24
    wall = 1 + (0.1 + 0.35 * through**2) * (1 - np.sin(angle)) ** 2
    ellipse = (slim**2 * np.cos(angle) ** 2 + np.sin(angle) ** 2) ** 0.25
    return math.sqrt(math.pi * deep / q) * (m1 + m2 * through**2 + m3 * through**4) * wall * ellipse


def plate(angle: np.ndarray, deep: float, half: float, thick: float, wide: float, **_: float) -> np.ndarray:
    """K_I under a tension of 1 (1981, equations 2 to 11)."""
    width = math.sqrt(1 / math.cos(math.pi * half / (2 * wide) * math.sqrt(deep / thick)))
    return shape(angle, deep, half, thick) * width


def tube(angle: np.ndarray, deep: float, half: float, thick: float, inner: float, **_: float) -> np.ndarray:
    """K_I under a pressure of 1, in the bore and on the crack's sides (1982)."""
    outer = inner + thick
    curved = (outer**2 + inner**2) / (outer**2 - inner**2) + 1 - 0.5 * math.sqrt(deep / thick)
    return 0.97 * shape(angle, deep, half, thick) * curved


def angles(points: np.ndarray, deep: float, half: float, inner: float = 0.0, **_: float) -> np.ndarray:
    """The ellipse's angle at points of the front, from the wall, at most a right one: both halves are alike."""
    return np.arctan2((points[:, 1] - inner) / deep, np.abs(points[:, 0]) / half)


def parts(points: np.ndarray, found: np.ndarray, exact: np.ndarray, where: np.ndarray) -> list[tuple[str, float, float, float]]:
    """Of each part of the front: its name, the mean of what was found and of the equation, and what is allowed."""
    rows = []
    for name, begin, end, allowed in PARTS:
        here = (where >= math.radians(begin)) & (where <= math.radians(end + 1e-6))
        if not here.any():
            raise ValueError(f"no node of the front lies {name}: mesh it more finely")
        rows.append((name, float(found[here].mean()), float(exact[here].mean()), allowed))
    return rows


def numbers(crack: dict[str, float]) -> list[str]:
    """A crack as Gmsh is told of it."""
    return [word for name, value in crack.items() for word in ("-setnumber", name, f"{value:.12g}")]


GEOMETRY = Path(__file__).resolve().parents[1] / "validation" / "surface_crack.geo"

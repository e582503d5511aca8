"""Cracks that open to a wall: the equations that they are compared with, against others' limits; and their K."""

import math

import numpy as np
import pytest
from pipeproblem import surface_cracks
from pipeproblem.validation import wall_rows

DEEPEST = np.array([math.pi / 2])


def test_the_equation_has_the_limits_that_others_found():
    thick = {"thick": 1e6, "wide": 1e9}
    # Half a penny at a free surface: 1.03 times the penny's (Smith, Emery, Kobayashi, 1967); an edge crack: 1.122.
    half = surface_cracks.plate(DEEPEST, deep=1.0, half=1.0, **thick)
    assert half == pytest.approx(1.03 * 2 / math.pi * math.sqrt(math.pi), rel=0.015)
    edge = surface_cracks.plate(DEEPEST, deep=1.0, half=1e6, **thick)
    assert edge == pytest.approx(1.122 * math.sqrt(math.pi), rel=0.01)
    # A shallow crack in a tube sees the hoop stress of Lamé at the bore, and the pressure on its sides.
    tube = {"deep": 1e-3, "half": 1e-3, "thick": 2.0, "inner": 10.0}
    hoop = (12**2 + 10**2) / (12**2 - 10**2)
    shallow = {"deep": 1e-3, "half": 1e-3, "thick": 2.0}
    assert surface_cracks.tube(DEEPEST, **tube) == pytest.approx((hoop + 1) * surface_cracks.shape(DEEPEST, **shallow), rel=0.04)


def test_k_of_cracks_that_open_to_a_wall(tmp_path):
    """Coarser than `python -m pipeproblem.validation`, and within what the equations are said to be."""
    rows = wall_rows(tmp_path / "wall", crack_size=0.2)
    assert len(rows) == 2 * len(surface_cracks.PARTS)
    for row in rows:
        assert abs(row.error) <= row.allowed, row

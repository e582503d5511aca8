#!/usr/bin/env python3
"""From the solid to the gas and to the mechanical solver: temperatures of the bore and of all nodes.

    wall_temperature.py THERMAL.frd MESH.inp WALL.vtu TEMPERATURE.inp CHANGE [--before WALL.vtu]

WALL.vtu (m): the bore (SURFACE_1) as quadratic triangles with point data temperature (K). TEMPERATURE.inp: *TEMPERATURE
of each node. CHANGE: by how much the bore's temperature differs from that of an earlier WALL.vtu, at most, K; without
one, how much hotter its hottest point is than its coldest.
"""

import argparse
import sys
from pathlib import Path

import meshio
import numpy as np

import calculix
import nearest
import vtu
from calculix import BadDeck

BORE = "SURFACE_1"
METRES = 1e-3  # a mm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("result", "mesh", "wall", "temperature", "change"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--before", type=Path)
    wanted = parser.parse_args()
    mesh = calculix.read_mesh(wanted.mesh)
    nodes, temperatures = calculix.read_temperatures(wanted.result)
    if not np.isfinite(temperatures).all():
        raise BadDeck("the result has temperatures that are no numbers")
    faces = mesh.faces(BORE)
    used, at = np.unique(faces, return_inverse=True)
    rows = np.searchsorted(nodes, used)
    if rows.max() >= len(nodes) or (nodes[rows] != used).any():
        raise BadDeck("the result and the mesh do not belong together: it lacks nodes of the bore")
    points, bore = mesh.points[mesh.rows(used)] * METRES, temperatures[rows]
    cells = [("triangle6", at.reshape(-1, 6))]
    meshio.write(wanted.wall, meshio.Mesh(points, cells, point_data={"temperature": bore}), "vtu")
    lines = [f"{node}, {kelvin:.8g}" for node, kelvin in zip(nodes.tolist(), temperatures.tolist(), strict=True)]
    wanted.temperature.write_text("*TEMPERATURE\n" + "\n".join(lines) + "\n", encoding="ascii")
    change = float(np.ptp(bore))
    if wanted.before is not None:
        earlier = vtu.read(wanted.before, points=("temperature",))
        change = float(np.abs(bore - earlier.point_data["temperature"][nearest.rows(earlier.points, points)]).max())
    wanted.change.write_text(f"{change!r}\n")


if __name__ == "__main__":
    try:
        main()
    except (BadDeck, vtu.BadField, OSError, KeyError, meshio.ReadError) as error:
        sys.exit(f"wall_temperature: {error}")

#!/usr/bin/env python3
"""From the gas to the solid: film coefficients and pressures of the wall on the solid's faces.

    film_and_pressure.py WALL.vtu MESH.inp THERMAL.inp PRESSURE.inp --NAME VALUE ...

WALL.vtu (SI) has triangles with pressure, film_coefficient and film_temperature; each face of the bore (SURFACE_1, mm)
takes those of the nearest. The two sides of a crack (SURFACE_5A, SURFACE_5B), if there is one, take the pressure of the
nearest face of the bore, and no heat. THERMAL.inp is the whole deck of the heat's conduction, which includes mesh.inp:
films at bore, outside (SURFACE_2) and cooling passages (SURFACE_6). PRESSURE.inp is part of the mechanical solver's:
absolute pressures on all of these faces.
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

BORE, OUTSIDE, PASSAGES, CRACK = "SURFACE_1", "SURFACE_2", "SURFACE_6", ("SURFACE_5A", "SURFACE_5B")
PER_METRE = 1e3  # mm
MPA = 1e-6  # a Pa in MPa
FILM = 1e-3  # W/(m2 K) in mW/(mm2 K); 1 W/(m K) is 1 mW/(mm K)
NUMBERS = (
    "conductivity",
    "outside-coefficient",
    "outside-temperature",
    "passage-coefficient",
    "passage-temperature",
    "outside-pressure",
    "passage-pressure",
)
COOLED = ((OUTSIDE, "outside"), (PASSAGES, "passage"))


def loads(surface: np.ndarray, letter: str, *columns: np.ndarray) -> str:
    """Lines of a load on faces: element, letter and number of the face, values."""
    rows = zip(surface.tolist(), *(column.tolist() for column in columns), strict=True)
    return "".join(f"{e}, {letter}{f}, {', '.join(f'{v:.10g}' for v in values)}\n" for (e, f), *values in rows)


def thermal_deck(mesh: calculix.Mesh, numbers: dict[str, float], film: str) -> str:
    """The analysis: steady conduction."""
    cooled = ""
    for name, kind in COOLED:
        if name in mesh.surfaces:
            rows = mesh.surfaces[name]
            each = np.ones(len(rows))
            cooled += loads(
                rows, "F", each * numbers[f"{kind}_temperature"], each * numbers[f"{kind}_coefficient"] * FILM
            )
    return (
        "** Steady conduction of heat in the wall; mm, N, MPa, K, so mW.\n*INCLUDE, INPUT=mesh.inp\n"
        f"*MATERIAL, NAME=WALL\n*CONDUCTIVITY\n{numbers['conductivity']:.10g}\n"
        "*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL\n"
        f"*INITIAL CONDITIONS, TYPE=TEMPERATURE\nALL, {numbers['outside_temperature']:.10g}\n"
        f"*STEP\n*HEAT TRANSFER, STEADY STATE\n*FILM\n{film}{cooled}*NODE FILE\nNT\n*END STEP\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("wall", "mesh", "thermal", "pressure"):
        parser.add_argument(name, type=Path)
    for name in NUMBERS:
        parser.add_argument(f"--{name}", required=True, type=float)
    wanted = parser.parse_args()
    names = ("pressure", "film_temperature", "film_coefficient")
    wall = vtu.read(wanted.wall, cells=names)
    told = {name: np.concatenate(wall.cell_data[name]) for name in names}
    middles = np.concatenate([wall.points[block.data].mean(1) for block in wall.cells]) * PER_METRE
    mesh = calculix.read_mesh(wanted.mesh)
    at = nearest.rows(middles, mesh.centres(BORE))
    bore = mesh.surfaces[BORE]
    film = loads(bore, "F", told["film_temperature"][at], told["film_coefficient"][at] * FILM)
    numbers = {name.replace("-", "_"): getattr(wanted, name.replace("-", "_")) for name in NUMBERS}
    wanted.thermal.write_text(thermal_deck(mesh, numbers, film), encoding="ascii")
    pressed = loads(bore, "P", told["pressure"][at] * MPA)
    for side in CRACK:
        if side in mesh.surfaces:
            here = nearest.rows(middles, mesh.centres(side))
            pressed += loads(mesh.surfaces[side], "P", told["pressure"][here] * MPA)
    for name, kind in COOLED:
        if name in mesh.surfaces:
            rows = mesh.surfaces[name]
            pressed += loads(rows, "P", np.full(len(rows), numbers[f"{kind}_pressure"] * MPA))
    wanted.pressure.write_text(f"*DLOAD\n{pressed}", encoding="ascii")


if __name__ == "__main__":
    try:
        main()
    except (BadDeck, vtu.BadField, OSError, KeyError, meshio.ReadError) as error:
        sys.exit(f"film_and_pressure: {error}")

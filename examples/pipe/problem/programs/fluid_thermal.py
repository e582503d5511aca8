#!/usr/bin/env python3
"""The fluid/thermal solver (paper 000, section 2): hot gas under high pressure in the bore.

    fluid_thermal.py POLYMESH WALL.vtu GAS.vtu [--wall TEMPERATURE.vtu] [--start GAS.vtu] --NAME VALUE ...

Runs OpenFOAM's rhoSimpleFoam, unmodified, in one process, or decomposePar, two ranks of it and reconstructPar.
What is ours: a case from numbers, and what comes out as VTU (SI, float64):

- WALL.vtu: triangles of the wall with pressure (Pa), temperature (K), heat_flux (W/m2, into the wall),
  film_temperature (K) and film_coefficient (W/(m2 K)): heat_flux = film_coefficient (film_temperature - temperature).
  The film's temperature is the gas's where it comes in; the coefficient is the heat flux that was computed over
  the difference.
- GAS.vtu: the cells with pressure, temperature, velocity, k, omega; another run can start from it.
- Files with a word each. --converged: true if the residuals of velocity and enthalpy fell below the tolerance, and the
  temperature is within its limits. --imbalance: what enters the gas and does not leave it, as part of the heat that the
  wall takes. --limited: whether a temperature is at its limit. --y-plus: mean y+ of the wall, where its functions want 30 to 300.

TEMPERATURE.vtu tells the wall's temperature (point data `temperature`, K) on triangles of its surface.
"""

import argparse
import sys
from pathlib import Path

import meshio
import numpy as np

import nearest
import openfoam
import vtu
from openfoam import BadCase

NUMBERS = ("pressure", "temperature", "velocity", "intensity", "wall-temperature", "iterations", "tolerance", "ranks")
FIELDS = {"pressure": "p", "temperature": "T", "velocity": "U", "k": "k", "omega": "omega"}
C_MU = 0.09
CONVERGED = "SIMPLE solution converged"
COLDEST, HOTTEST = 200.0, 3500.0
"""K, of the thermodynamic data; a solution that needs these limits is none."""
LEAST_DIFFERENCE = 1.0
"""K between gas and wall, below which a film coefficient has no meaning."""


def start_fields(wanted: argparse.Namespace, mesh: openfoam.Mesh) -> dict[str, np.ndarray | float]:
    """What the solver begins with: constants, or what another run ended with, by the nearest cells."""
    length = diameter(mesh)
    speed, intensity = float(wanted.velocity), float(wanted.intensity)
    k = 1.5 * (speed * intensity) ** 2
    fields: dict[str, np.ndarray | float] = {
        "p": float(wanted.pressure),
        "T": float(wanted.temperature),
        "U": 0.0,
        "k": k,
        "omega": np.sqrt(k) / (C_MU**0.25 * 0.07 * length),
    }
    count = mesh.cell_count
    if wanted.start is None:
        inlet = mesh.patches["inlet"].faces
        a, b, c = (mesh.points[mesh.faces[inlet, n]] for n in range(3))
        inward = -np.cross(b - a, c - a).sum(0)
        fields["U"] = np.tile(speed * inward / np.linalg.norm(inward), (count, 1))
        return fields
    before = vtu.read(wanted.start, cells=tuple(FIELDS))
    cells = np.concatenate([before.points[block.data].mean(1) for block in before.cells])
    data = {ours: np.concatenate(before.cell_data[name]) for name, ours in FIELDS.items()}
    tets, tet_cells, wedges, wedge_cells = mesh.cells()
    centres = np.empty((count, 3))
    centres[tet_cells], centres[wedge_cells] = mesh.points[tets].mean(1), mesh.points[wedges].mean(1)
    at = nearest.rows(cells, centres)
    return fields | {name: field[at] for name, field in data.items()}


def diameter(mesh: openfoam.Mesh) -> float:
    """The inlet's, as if it were a circle, m."""
    faces = mesh.faces[mesh.patches["inlet"].faces]
    last = np.where(faces[:, 3] < 0, faces[:, 2], faces[:, 3])
    a, b, c, d = (mesh.points[n] for n in (faces[:, 0], faces[:, 1], faces[:, 2], last))
    area = np.linalg.norm(0.5 * (np.cross(b - a, c - a) + np.cross(c - a, d - a)).sum(0))
    return float(np.sqrt(4 * area / np.pi))


def wall_temperatures(wanted: argparse.Namespace, mesh: openfoam.Mesh) -> np.ndarray | float:
    """That of each face of the wall, K: the nearest triangle's mean, or one for all. With the mean, not the middle's, the
    film gives a solid of quadratic triangles the heat that the gas loses."""
    if wanted.wall is None:
        return float(wanted.wall_temperature)
    told = vtu.read(wanted.wall, points=("temperature",))
    middles, at_middle = [], []
    for block in told.cells:
        weights = {"triangle": np.full(3, 1 / 3), "triangle6": np.array([0, 0, 0, 1, 1, 1]) / 3}.get(block.type)
        if weights is None:
            raise BadCase(f"the wall's temperatures stand on {block.type}; triangles wanted")
        middles.append(told.points[block.data[:, :3]].mean(1))
        at_middle.append(told.point_data["temperature"][block.data] @ weights)
    return np.concatenate(at_middle)[nearest.rows(np.concatenate(middles), mesh.centres("wall"))]


def write_start(wanted: argparse.Namespace, mesh: openfoam.Mesh, fields: dict, wall: np.ndarray | float) -> None:
    """The files that the case's dictionaries include: all numbers of this run."""
    folder = Path("case/start")
    folder.mkdir()
    length = diameter(mesh)
    k = 1.5 * (float(wanted.velocity) * float(wanted.intensity)) ** 2
    parameters = {
        "format": "binary",
        "step": repr(100 / int(wanted.iterations)),
        "iterations": wanted.iterations,
        "tolerance": wanted.tolerance,
        "pressure": wanted.pressure,
        "temperature": wanted.temperature,
        "intoPipe": repr(-float(wanted.velocity)),
        "intensity": wanted.intensity,
        "k": repr(k),
        "omega": repr(float(np.sqrt(k) / (C_MU**0.25 * 0.07 * length))),
        "mixingLength": repr(0.07 * length),
        "coldest": repr(COLDEST),
        "hottest": repr(HOTTEST),
    }
    (folder / "parameters").write_text("".join(f"{key} {value};\n" for key, value in parameters.items()))
    for name, field in fields.items():
        (folder / name).write_text(openfoam.field_entry("internalField", field))
    (folder / "wallTemperature").write_text(openfoam.field_entry("value", wall))


def solve(ranks: int) -> tuple[Path, bool]:
    """Runs the solver; the directory of its last state, and whether it says that it converged."""
    case = ("-case", "case")
    if ranks == 1:
        converged = openfoam.run("rhoSimpleFoam", *case, until=CONVERGED)
    else:
        openfoam.run("decomposePar", *case)
        words = ("mpirun", "-np", ranks, "--oversubscribe", "rhoSimpleFoam", *case, "-parallel")
        converged = openfoam.run(*words, until=CONVERGED)
        openfoam.run("reconstructPar", *case, "-latestTime")
    times = [path for path in Path("case").iterdir() if path.name.replace(".", "").isdigit() and path.name != "0"]
    if not times:
        raise BadCase("the solver wrote no state")
    return max(times, key=lambda path: float(path.name)), converged


def imbalance(mesh: openfoam.Mesh, state: Path, heat: float, velocity: float) -> float:
    """What enters the gas (at `velocity`, m/s) and does not leave it, as part of the `heat` (W) that the wall takes."""
    left = heat
    for name in ("inlet", "outlet"):
        count = mesh.patches[name].count
        outward, enthalpy = (openfoam.on_patch(state / field, name, count) for field in ("phi", "h"))
        # OpenFOAM does not write the inlet's velocity, which is told.
        square = velocity**2 if name == "inlet" else (openfoam.on_patch(state / "U", name, count, 3) ** 2).sum(1)
        left += float((outward * (enthalpy + square / 2)).sum())
    return -left / heat


def write_results(wanted: argparse.Namespace, mesh: openfoam.Mesh, state: Path, converged: bool) -> None:
    """Reads the last state and writes it as VTU, and what it is worth."""
    count = mesh.cell_count
    fields = {name: openfoam.internal(state / ours, count, 3 if ours == "U" else 1) for name, ours in FIELDS.items()}
    tets, tet_cells, wedges, wedge_cells = mesh.cells()
    kinds = [(kind, rows, at) for kind, rows, at in (("tetra", tets, tet_cells), ("wedge", wedges, wedge_cells)) if len(at)]
    data = {name: [field[at] for _, _, at in kinds] for name, field in fields.items()}
    meshio.write(wanted.gas, meshio.Mesh(mesh.points, [(kind, rows) for kind, rows, _ in kinds], cell_data=data), "vtu")

    patch = mesh.patches["wall"]
    # OpenFOAM's flux is positive into the gas.
    flux = -openfoam.on_patch(state / "wallHeatFlux", "wall", patch.count)
    film = np.full(patch.count, float(wanted.temperature))
    temperature = openfoam.on_patch(state / "T", "wall", patch.count)
    difference = film - temperature
    if np.abs(difference).min() < LEAST_DIFFERENCE:
        raise BadCase(f"gas and wall differ by less than {LEAST_DIFFERENCE} K somewhere: no film coefficient")
    coefficient = flux / difference
    if not (np.isfinite(coefficient).all() and coefficient.min() > 0):
        raise BadCase("heat flows from cold to hot somewhere at the wall: the flow is not converged")
    faces = mesh.faces[patch.faces]
    if (faces[:, 3] >= 0).any():
        raise BadCase("the wall has faces that are no triangles")
    used, at = np.unique(faces[:, :3], return_inverse=True)
    data = {
        "pressure": [fields["pressure"][mesh.owner[patch.faces]]],
        "temperature": [temperature],
        "heat_flux": [flux],
        "film_temperature": [film],
        "film_coefficient": [coefficient],
    }
    meshio.write(wanted.output, meshio.Mesh(mesh.points[used], [("triangle", at.reshape(-1, 3))], cell_data=data), "vtu")
    area = np.linalg.norm(np.cross(*(mesh.points[faces[:, k]] - mesh.points[faces[:, 0]] for k in (1, 2))), axis=1) / 2
    heat = float((flux * area).sum())
    print(f"heat into the wall: {heat:.6g} W; mean film coefficient {(coefficient * area).sum() / area.sum():.6g} W/(m2 K)")
    y_plus = openfoam.on_patch(state / "yPlus", "wall", patch.count)
    limited = fields["temperature"].min() <= COLDEST or fields["temperature"].max() >= HOTTEST
    worth = {
        "converged": str(converged and not limited).lower(),
        "limited": str(bool(limited)).lower(),
        "imbalance": f"{imbalance(mesh, state, heat, float(wanted.velocity)):.6g}",
        "y_plus": f"{(y_plus * area).sum() / area.sum():.6g}",
    }
    print(", ".join(f"{name} {value}" for name, value in worth.items()))
    for name, value in worth.items():
        if path := getattr(wanted, name):
            path.write_text(f"{value}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mesh", "output", "gas"):
        parser.add_argument(name, type=Path)
    for name in ("wall", "start"):
        parser.add_argument(f"--{name}", type=Path)
    for name in ("converged", "imbalance", "limited", "y-plus"):
        parser.add_argument(f"--{name}", type=Path, help="written")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", required=True)
    wanted = parser.parse_args()
    mesh = openfoam.read_mesh(wanted.mesh)
    if set(mesh.patches) != {"wall", "inlet", "outlet"}:
        raise BadCase(f"patches {', '.join(mesh.patches)}: wall, inlet, outlet wanted")
    openfoam.make_case(Path("case"))
    openfoam.write_mesh(mesh, Path("case/constant/polyMesh"))
    write_start(wanted, mesh, start_fields(wanted, mesh), wall_temperatures(wanted, mesh))
    write_results(wanted, mesh, *solve(int(wanted.ranks)))


if __name__ == "__main__":
    try:
        main()
    except (BadCase, vtu.BadField, OSError, meshio.ReadError) as error:
        sys.exit(f"fluid_thermal: {error}")

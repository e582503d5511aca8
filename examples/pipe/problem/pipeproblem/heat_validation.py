"""The fluid and thermal half against textbooks: `python -m pipeproblem.heat_validation` prints a table.

The same programs as in the services, run directly: conduction through a cylinder's wall between two films, which has a
closed form, and the Nusselt number of fully developed flow in a straight pipe, of the gas and with the gas meshes of the
Pipe Problem, against Gnielinski's correlation of measurements (1976; said to be within 10 %)."""

import argparse
import math
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import meshio
import numpy as np

from .validation import HEAD, PIPE, PROBLEM, SOLVERS, Row, activate, program, solve

sys.path.append(str(PROBLEM / "programs"))

import calculix  # noqa: E402  (its folder is told above)
from pipedemo import chain, process  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402
from pipedemo.runner import Direct  # noqa: E402

from .coupling import GAS_MESHES, Conditions, GasMesh  # noqa: E402

PROGRAMS = PROBLEM / "programs"
GAS_CONSTANT = 8314.46  # J/(kmol K)
STEAM = {"mass": 18.01528, "sutherland": (1.67212e-06, 170.672)}
JANAF = {True: (3.03399249, 0.00217691804, -1.64072518e-07, -9.7041987e-11, 1.68200992e-14),
         False: (4.19864056, -0.0020364341, 6.52040211e-06, -5.48797062e-09, 1.77197817e-12)}  # fmt: skip
"""Above 1000 K, and below: as in foam/constant/thermophysicalProperties."""
GNIELINSKI = 10.0
"""Per cent, by which measurements differ from his correlation."""
STRAIGHT_TOLERANCE = 1e-3
"""Of residuals: those of the velocity across a short straight pipe, which is hardly any, stall at 3e-4."""
BALANCED = 0.01
"""Part of the heat that a solution may lose."""


def write_tube(path: Path, radius: float, length: float, around: int, along: int) -> None:
    """The bore of a straight pipe along z as a surface mesh (Medit, mm), and a ring of the end where gas comes in."""
    angle = 2 * np.pi * np.arange(around) / around
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    heights = np.linspace(0, length, along + 1)
    tube = np.concatenate([np.column_stack([radius * circle, np.full(around, z)]) for z in heights])
    outer = np.column_stack([1.2 * radius * circle, np.zeros(around)])
    n = np.arange(around)
    m = (n + 1) % around

    def band(low: int, high: int) -> list[np.ndarray]:
        return [np.column_stack([low + n, low + m, high + m]), np.column_stack([low + n, high + m, high + n])]

    bore = np.concatenate([part for k in range(along) for part in band(k * around, (k + 1) * around)])
    # Every third the other way round: surface meshers promise nothing.
    bore[::3] = bore[::3, [1, 0, 2]]
    end = np.concatenate(band(0, len(tube)))
    marks = np.repeat([1, 3], [len(bore), len(end)])
    cells = [("triangle", np.concatenate([bore, end]))]
    meshio.write(path, meshio.Mesh(np.concatenate([tube, outer]), cells, cell_data={"medit:ref": [marks]}), "medit")


def mesh_gas(folder: Path, surface: Path, mesh: GasMesh) -> Path:
    """OpenFOAM's mesh of what a surface encloses."""
    words = [word for name, value in asdict(mesh).items() for word in (f"--{name}", value)]
    folder.mkdir(parents=True, exist_ok=True)
    program(folder, PROGRAMS / "generalized_mesher.py", surface.absolute(), "gas", *words)
    return folder / "gas"


GAS = {"pressure": Conditions.pressure, "temperature": Conditions.temperature, "velocity": Conditions.velocity,
       "wall-temperature": Conditions.initial_wall_temperature, "intensity": 0.05,
       "iterations": 300, "tolerance": STRAIGHT_TOLERANCE, "ranks": 1}  # fmt: skip


WORTH = ("converged", "imbalance", "y_plus")


def solve_gas(folder: Path, mesh: Path, **numbers: object) -> Path:
    """The wall as the fluid and thermal solver gives it; `numbers` instead of those in `GAS`."""
    told = GAS | {name.replace("_", "-"): value for name, value in numbers.items()}
    words = [word for name, value in told.items() for word in (f"--{name}", value)]
    words += [word for name in WORTH for word in (f"--{name.replace('_', '-')}", name)]
    folder.mkdir(parents=True, exist_ok=True)
    program(folder, PROGRAMS / "fluid_thermal.py", mesh.absolute(), "wall.vtu", "gas.vtu", *words)
    return folder / "wall.vtu"


def worth(wall: Path) -> tuple[bool, float, float]:
    """What a solution beside its wall is worth: whether it converged, its imbalance, y+."""
    converged, imbalance, y_plus = ((wall.parent / name).read_text().strip() for name in WORTH)
    return converged == "true", float(imbalance), float(y_plus)


def heat_capacity(kelvin: float) -> float:
    """c_p of steam, J/(kg K)."""
    polynomial = sum(a * kelvin**k for k, a in enumerate(JANAF[kelvin >= 1000]))
    return GAS_CONSTANT / STEAM["mass"] * polynomial


def nusselt_row(folder: Path, size: str, *, diameters: float = 32.0) -> Row:
    """Nusselt number between 3/4 and 9/10 of a straight pipe's length, by the gas's mean temperature there."""
    folder.mkdir(parents=True, exist_ok=True)
    radius, around = 20.0, 16
    length = diameters * 2 * radius
    write_tube(folder / "tube.mesh", radius, length, around, int(length / 12))
    solved = solve_gas(folder / "flow", mesh_gas(folder, folder / "tube.mesh", GAS_MESHES[size]), iterations=600)
    # The residuals of the velocity across so long a pipe, which is hardly any, stall; the heat tells instead.
    _, imbalance, y_plus = worth(solved)
    if abs(imbalance) > BALANCED:
        raise process.Failed(f"the gas in the straight pipe loses {imbalance:+.1%} of the heat, gas mesh {size}")
    wall = meshio.read(solved)
    corners = wall.points[wall.cells[0].data]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    z, data = corners.mean(1)[:, 2], {name: rows[0] for name, rows in wall.cell_data.items()}
    section = around / 2 * (radius * 1e-3) ** 2 * math.sin(2 * math.pi / around)
    perimeter = area.sum() / (length * 1e-3)
    width = 4 * section / perimeter
    inflow, cold = float(GAS["temperature"]), float(GAS["wall-temperature"])
    density = data["pressure"][z < 0.05 * z.max()].mean() * STEAM["mass"] / (GAS_CONSTANT * inflow)
    mass_flow = density * float(GAS["velocity"]) * section
    here = (z > 0.75 * z.max()) & (z < 0.9 * z.max())
    lost = (data["heat_flux"] * area)[z < 0.825 * z.max()].sum()
    mean = inflow - lost / (mass_flow * heat_capacity(inflow))
    flux = (data["heat_flux"] * area)[here].sum() / area[here].sum()
    a, t = STEAM["sutherland"]
    viscosity = a * math.sqrt(mean) / (1 + t / mean)
    gas, capacity = GAS_CONSTANT / STEAM["mass"], heat_capacity(mean)
    # Eucken's, as OpenFOAM's `sutherland` has it.
    conductivity = viscosity * (capacity - gas) * (1.32 + 1.77 * gas / (capacity - gas))
    nusselt = flux / (mean - cold) * width / conductivity
    reynolds, prandtl = mass_flow / section * width / viscosity, viscosity * capacity / conductivity
    f = (0.79 * math.log(reynolds) - 1.64) ** -2 / 8
    gnielinski = f * (reynolds - 1000) * prandtl / (1 + 12.7 * math.sqrt(f) * (prandtl ** (2 / 3) - 1))
    said = f"Re {reynolds:.3g}, Pr {prandtl:.2f}"
    print(f"{size}: y+ {y_plus:.0f}, imbalance {imbalance:+.2%}, {said}", file=sys.stderr)
    return Row(f"Nusselt number, {said}, gas mesh {size}", nusselt, gnielinski, "-", GNIELINSKI)


def mesh_solid(folder: Path, cylinder: Cylinder) -> tuple[Path, Path]:
    """A straight pipe: its surface mesh, and its ten-node tetrahedra in `folder/mesh.inp`."""
    direct = Direct(sorted((PIPE / "services").glob("*.toml")), dict(os.environ))
    surface = direct.run(chain.surface_mesher(cylinder), folder / "surface").files["surface"]
    volume = direct.run(chain.volume_mesher(cylinder, surface), folder / "volume").files
    mesh = direct.run(chain.converter(**volume), folder / "mesh").files["mesh"]
    return surface, mesh.rename(folder / "mesh.inp")


def section_flux(path: Path) -> float:
    """The last total of a *SECTION PRINT of heat (mW), W."""
    return float(path.read_text().rpartition("total surface flux")[2].split()[-1]) * 1e-3


def film_rows(folder: Path, cylinder: Cylinder, solver: str = "calculix") -> list[Row]:
    """Temperatures of a cylinder's wall between hot gas and coolant, and the heat that flows through it."""
    mesh_solid(folder, cylinder)
    mesh = calculix.read_mesh(folder / "mesh.inp")
    hot, inner_film, cold, outer_film, conductivity = 1200.0, 2000.0, 300.0, 800.0, 20.0  # K, W/(m2 K), W/(m K)
    faces = mesh.faces("SURFACE_1")[:, :3]
    one = np.ones(len(faces))
    told = {"pressure": [1e6 * one], "film_temperature": [hot * one], "film_coefficient": [inner_film * one]}
    meshio.write(folder / "wall.vtu", meshio.Mesh(mesh.points * 1e-3, [("triangle", mesh.rows(faces))], cell_data=told))
    program(
        folder, PROGRAMS / "film_and_pressure.py", "wall.vtu", "mesh.inp", "job.inp", "pressure.inp",
        "--conductivity", conductivity, "--outside-coefficient", outer_film, "--outside-temperature", cold,
        "--passage-coefficient", 0, "--passage-temperature", cold,
        "--outside-pressure", 0, "--passage-pressure", 0,
    )  # fmt: skip
    # What flows out by the gradient in the wall, not by the film; only CalculiX tells it.
    if solver == "calculix":
        deck = (folder / "job.inp").read_text()
        asked = "*SECTION PRINT, SURFACE=SURFACE_2, NAME=OUT\nFLUX\n*END STEP"
        (folder / "job.inp").write_text(deck.replace("*END STEP", asked))
    nodes, temperatures = calculix.read_temperatures(solve(folder, solver))

    def mean(surface: str) -> float:
        faces, points = mesh.faces(surface), mesh.points
        a, b, c = (points[mesh.rows(faces[:, k])] for k in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        # A quadratic triangle's mean is that of its mid-side nodes.
        return float((temperatures[np.searchsorted(nodes, faces[:, 3:])].mean(1) * area).sum() / area.sum())

    a, b = cylinder.inner * 1e-3, cylinder.outer * 1e-3
    resistance = 1 / (inner_film * a) + math.log(b / a) / conductivity + 1 / (outer_film * b)
    heat = 2 * math.pi * (hot - cold) / resistance
    bore, outside = mean("SURFACE_1"), mean("SURFACE_2")
    length = cylinder.length * 1e-3
    rows = [
        Row("cylinder between films, temperature of the bore", bore, hot - heat / (2 * math.pi * a * inner_film), "K", 0.5),
        Row("  and outside", outside, cold + heat / (2 * math.pi * b * outer_film), "K", 0.5),
    ]
    if solver == "calculix":
        rows.append(Row("  heat that leaves the wall outside", section_flux(folder / "job.dat"), heat * length, "W", 1.0))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=GAS_MESHES, default="coarse", help="the gas's mesh (%(default)s)")
    parser.add_argument("--solver", choices=SOLVERS, default="calculix", help="of the wall (%(default)s)")
    wanted = parser.parse_args()
    activate()
    with tempfile.TemporaryDirectory(prefix="fishplate-pipe-") as name:
        folder = Path(name)
        try:
            rows = film_rows(folder / "films", Cylinder(), wanted.solver)
            rows.append(nusselt_row(folder / "pipe", wanted.size))
        except process.Failed as failed:
            print(f"heat_validation: {failed}", file=sys.stderr)
            return 1
    print(HEAD)
    print("\n".join(map(str, rows)))
    return 0 if all(abs(row.error) <= row.allowed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

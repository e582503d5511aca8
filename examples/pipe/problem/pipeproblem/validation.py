"""The solid half against closed forms: `python -m pipeproblem.validation` prints a table.

The same programs as in the services, run directly. Lamé's cylinder and Timoshenko's thermal stress in one are the quick
part's pipe; the penny-shaped crack is under tension, under pressure on its sides, and under a temperature that changes
across it, and inclined to the load (Tada, Paris, Irwin, The Stress Analysis of Cracks Handbook). Cracks that open to a wall
are compared with Newman and Raju's equations (surface_cracks.py).
"""

import argparse
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROBLEM = Path(__file__).resolve().parents[1]
PIPE = PROBLEM.parent
sys.path[:0] = [str(PIPE), str(PROBLEM / "programs")]

import t4_to_t10  # noqa: E402  (its folder is told above, as of the others)
from crack_front import Deck, Front, read_deck, read_nodal  # noqa: E402
from domain_integral import Solid, read_pressure  # noqa: E402
from fracture_mechanics import along_front  # noqa: E402
from pipedemo import chain, process, stress  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402
from pipedemo.runner import Direct  # noqa: E402

from . import mechanics, surface_cracks  # noqa: E402
from .case import SIZES, Case  # noqa: E402

WORST = re.compile(r"^\s*(\*ERROR|Error\s*:)", re.MULTILINE)
SOLVERS: dict[str, tuple[str | Path, ...]] = {
    "calculix": ("ccx", "-i", "job"),
    "getdp": (PROBLEM / "programs" / "getdp.py",),
}
STEEL = Solid(young=200_000.0, poisson=0.3)
PENNY = 1.5
"""Per cent that K_I of the penny crack may differ from the closed form."""
PAPER = {"small": "the paper's size 1", "large": "the paper's size 2"}
"""Of `SIZES`, those that have about the elements of its Table 1."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    computed: float
    exact: float
    unit: str
    allowed: float
    """Per cent."""

    @property
    def error(self) -> float:
        """Per cent."""
        return 100 * (self.computed / self.exact - 1)

    def __str__(self) -> str:
        verdict = "" if abs(self.error) <= self.allowed else "  too far"
        return (
            f"{self.what:<58} {self.computed:>10.4g} {self.exact:>10.4g} {self.unit:<14} {self.error:+7.2f} %"
            f" {self.allowed:>6g} %{verdict}"
        )


HEAD = f"{'':<58} {'computed':>10} {'exact':>10} {'':<14} {'error':>9} {'at most':>8}"


def activate() -> None:
    """As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def program(folder: Path, *words: object) -> None:
    """Runs a program in a folder; its log has a say whether it succeeded."""
    logs = folder / "stdout", folder / "stderr"
    texts = [str(word) for word in words]
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
    found = shutil.which(texts[0])
    if found is None:
        raise process.Failed(f"{texts[0]}: no such program; run examples/pipe/install.sh")
    code = process.run([found, *texts[1:]], folder, *logs, environment)
    if code != 0 or any(WORST.search(log.read_text(errors="replace")) for log in logs):
        raise process.Failed(f"{' '.join(texts)}: ended with {code}\n{process.tail(logs[1]) or process.tail(logs[0])}")


def solve(folder: Path, solver: str) -> Path:
    """Runs a solver of the solid on job.inp and what it includes; its result."""
    program(folder, *SOLVERS[solver])
    return folder / "job.frd"


def crack_mesh(folder: Path, geometry: Path, words: Sequence[object]) -> Path:
    """The mesh of a crack's geometry with some numbers, ten-node tetrahedra."""
    program(folder, "gmsh", geometry, "-2", "-nt", "1", "-format", "mesh", "-o", "crack.mesh", *words)
    program(folder, "tetgen", "-pYq1.4/12g", "crack.mesh")
    t4_to_t10.convert(folder / "crack.1.mesh", folder / "mesh.inp", crack_marker=5)
    return folder / "mesh.inp"


def penny_mesh(folder: Path, crack_size: float) -> Path:
    """A cube of 16 mm with a penny-shaped crack of radius 1 mm in its middle, ten-node tetrahedra."""
    return crack_mesh(folder, PROBLEM / "validation" / "penny.geo", ("-setnumber", "crack_size", crack_size))


def crack_solved(
    folder: Path, solver: str, loads: str, solid: Solid, temperature: dict[int, float] | None = None
) -> tuple[Front, np.ndarray]:
    """The front of a crack, and K_I, K_II, K_III at its nodes. `loads` are cards of the step."""
    (folder / "pressure.inp").write_text("".join(re.findall(r"\*DSLOAD\n(?:SURFACE.*\n)+", loads)))
    lines = ["*INCLUDE, INPUT=mesh.inp", "*MATERIAL, NAME=STEEL", "*ELASTIC", f"{solid.young}, {solid.poisson}"]
    if temperature:
        lines += [f"*EXPANSION, ZERO={solid.reference}", f"{solid.expansion}"]
        lines += ["*INITIAL CONDITIONS, TYPE=TEMPERATURE", f"ALL, {solid.reference}"]
    lines += ["*SOLID SECTION, ELSET=SOLID, MATERIAL=STEEL", "*STEP", "*STATIC, SOLVER=SPOOLES", loads.rstrip()]
    if temperature:
        lines += ["*TEMPERATURE", *(f"{node}, {value:.9g}" for node, value in temperature.items())]
    lines += ["*NODE FILE", "U", "*END STEP", ""]
    (folder / "job.inp").write_text("\n".join(lines))
    deck = read_deck(folder / "mesh.inp")
    moved = read_nodal(solve(folder, solver), "DISP", 3)
    return along_front(deck, solid, moved, temperature, read_pressure(folder / "pressure.inp", deck))


def held_end(deck: Deck, along: int) -> str:
    """The end NODES_3 held along its normal (1, 2 or 3 for x, y, z), and two nodes of it, as far apart as can be, so that
    the solid can't float or turn."""
    across, other = (k for k in (1, 2, 3) if k != along)
    least, most = (pick(deck.sets["NODES_3"], key=lambda n: (deck.nodes[n][across - 1], n)) for pick in (min, max))
    held = [("NODES_3", along), (least, across), (least, other), (most, other)]
    return "*BOUNDARY\n" + "".join(f"{what}, {k}, {k}\n" for what, k in held)


def strained(nodes: dict[int, np.ndarray], tension: float, shear: float) -> str:
    """The cube's surface displaced as by these remote stresses, MPa: along z, and along x on planes of constant z. That
    is what a crack inclined to the load's axis sees."""
    long, slide = tension / STEEL.young, shear * 2 * (1 + STEEL.poisson) / STEEL.young
    half = max(at[2] for at in nodes.values())
    lines = ["*BOUNDARY"]
    for node, (x, y, z) in nodes.items():
        if max(abs(x), abs(y), abs(z)) > half * (1 - 1e-9):
            at = (slide * z - STEEL.poisson * long * x, -STEEL.poisson * long * y, long * z)
            lines += [f"{node}, {k}, {k}, {value:.9g}" for k, value in enumerate(at, 1)]
    return "\n".join(lines) + "\n"


def penny_rows(folder: Path, crack_size: float = 0.08, solver: str = "calculix") -> list[Row]:
    """The crack under four loads that give the same mean, K_I = 2 s sqrt(a / pi)."""
    folder.mkdir()
    deck = read_deck(penny_mesh(folder, crack_size))
    nodes = deck.nodes
    exact = 2 * 100 * math.sqrt(1 / math.pi)
    bottom = held_end(deck, 3)
    pulled = crack_solved(folder, solver, bottom + "*DSLOAD\nSURFACE_4, P, -100.\n", STEEL)[1][:, 0]
    pressed = crack_solved(folder, solver, bottom + "*DSLOAD\nSURFACE_5A, P, 100.\nSURFACE_5B, P, 100.\n", STEEL)[1][:, 0]
    # Cooled by 50 K and by half of that more or less at x = +-1, between two ends that stay where they are.
    cooled = Solid(STEEL.young, STEEL.poisson, expansion=1e-5, reference=300.0)
    temperature = {node: 300.0 - 50.0 * (1 + 0.5 * at[0]) for node, at in nodes.items()}
    front, found = crack_solved(folder, solver, bottom + "NODES_4, 3, 3\n", cooled, temperature)
    thermal = found[:, 0]
    first = 2 * np.mean(thermal * front.points[:, 0])
    # Kassir and Sih, 1966; the sides' sliding is along x, so the modes go with ahead and along the front there.
    front, mixed = crack_solved(folder, solver, strained(nodes, 100.0, 60.0), STEEL)
    sheared = 0.6 * exact * 2 / (2 - STEEL.poisson)
    slid, torn = (2 * np.mean(mixed[:, k] * along[:, 0]) for k, along in ((1, front.ahead), (2, front.tangent)))
    unit = "MPa sqrt(mm)"
    return [
        Row("penny crack in tension, mean K_I", pulled.mean(), exact, unit, PENNY),
        Row("  its least K_I", pulled.min(), exact, unit, PENNY),
        Row("  its largest K_I", pulled.max(), exact, unit, PENNY),
        Row("penny crack with pressure on its sides, mean K_I", pressed.mean(), exact, unit, PENNY),
        Row("penny crack cooled between fixed ends, mean K_I", thermal.mean(), exact, unit, PENNY),
        Row("  amplitude of K_I around it, from the gradient", first, exact / 3, unit, PENNY),
        Row("penny crack inclined to the load, mean K_I", mixed[:, 0].mean(), exact, unit, PENNY),
        Row("  amplitude of K_II around it", slid, sheared, unit, 5.0),
        Row("  amplitude of K_III around it", torn, sheared * (1 - STEEL.poisson), unit, 5.0),
    ]


def wall_rows(folder: Path, crack_size: float = 0.12, solver: str = "calculix") -> list[Row]:
    """K_I of cracks that open to a wall, along their fronts."""
    cases = (
        ("in a plate", surface_cracks.PLATE, surface_cracks.plate, 3, "*DSLOAD\nSURFACE_4, P, -100.\n"),
        ("in a tube's bore", surface_cracks.TUBE, surface_cracks.tube, 1, mechanics.uniform_pressure(100.0)),
    )
    rows = []
    for name, crack, equation, along, loads in cases:
        at = folder / name.replace(" ", "-").replace("'", "")
        at.mkdir(parents=True)
        words = (*surface_cracks.numbers(crack), "-setnumber", "crack_size", crack_size)
        deck = read_deck(crack_mesh(at, surface_cracks.GEOMETRY, words))
        front, found = crack_solved(at, solver, held_end(deck, along) + loads, STEEL)
        where = surface_cracks.angles(front.points, **crack)
        exact = 100 * equation(where, **crack)
        for part, computed, wanted, allowed in surface_cracks.parts(front.points, found[:, 0], exact, where):
            rows.append(Row(f"crack {name}, K_I {part}", computed, wanted, "MPa sqrt(mm)", allowed))
    return rows


def cylinder_rows(folder: Path, cylinder: Cylinder, solver: str = "calculix") -> list[Row]:
    """Hoop stress at the bore of a straight pipe: under pressure, and with a hot bore."""
    direct = Direct(sorted((PIPE / "services").glob("*.toml")), dict(os.environ))
    surface = direct.run(chain.surface_mesher(cylinder), folder / "surface").files["surface"]
    volume = direct.run(chain.volume_mesher(cylinder, surface), folder / "volume").files
    mesh = direct.run(chain.converter(**volume), folder / "mesh").files["mesh"]
    text = chain.input_deck(cylinder, volume["nodes"])

    def solved(name: str, text: str) -> Path:
        at = folder / name
        at.mkdir()
        shutil.copy(mesh, at / "mesh.inp")
        (at / "job.inp").write_text(text)
        return solve(at, solver)

    pressed = stress.bore_hoop(cylinder, stress.read_frd(solved("pressed", text)))
    hot = 100.0
    steady = solved(
        "heat",
        "*INCLUDE, INPUT=mesh.inp\n*MATERIAL, NAME=WALL\n*CONDUCTIVITY\n20.\n*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL\n"
        "*INITIAL CONDITIONS, TYPE=TEMPERATURE\nALL, 0.\n*STEP\n*HEAT TRANSFER, STEADY STATE\n*BOUNDARY\n"
        f"NODES_1, 11, 11, {hot}\nNODES_2, 11, 11, 0.\n*NODE FILE\nNT\n*END STEP\n",
    )
    temperature = read_nodal(steady, "NDTEMP", 1)
    heated = "*TEMPERATURE\n" + "".join(f"{node}, {row[0]:.9g}\n" for node, row in temperature.items())
    expansion = 1e-5
    text = text.replace(
        "*SOLID SECTION",
        f"*EXPANSION\n{expansion}\n*INITIAL CONDITIONS, TYPE=TEMPERATURE\nALL, 0.\n*SOLID SECTION",
    )
    text = re.sub(r"\*DSLOAD\n.*\n", heated, text)
    warm = stress.bore_hoop(cylinder, stress.read_frd(solved("warm", text)))
    a, b = cylinder.inner, cylinder.outer
    log = math.log(b / a)
    scale = cylinder.young * expansion * hot / (2 * (1 - cylinder.poisson) * log)
    thermal = scale * (1 - log - a**2 / (b**2 - a**2) * (1 + b**2 / a**2) * log)
    return [
        Row("Lamé's cylinder, hoop stress at the bore", pressed.computed, pressed.closed_form, "MPa", 0.5),
        Row("cylinder with a hot bore, hoop stress there", warm.computed, thermal, "MPa", 1.0),
    ]


def pipe_mesh(folder: Path, case: Case) -> None:
    """The Pipe Problem's mesh with its first crack, ten-node tetrahedra, in mesh.inp."""
    # All digits, as in the services: meshers tell fronts apart by their last ones.
    np.savetxt(folder / "front.txt", case.first_front(), fmt="%.17g")
    numbers = vars(case.pipe) | {"size": case.size.surface, "crack_size": case.size.crack}
    words = [word for pair in numbers.items() for word in ("-setnumber", *pair)]
    shutil.copy(PROBLEM / "sites" / "geometry" / "cracked_pipe.geo", folder)
    program(folder, "gmsh", "cracked_pipe.geo", "-2", "-nt", "1", "-format", "mesh", "-o", "s.mesh", *words)
    program(folder, "tetgen", f"-pYq1.4/12ga{case.size.volume}", "s.mesh")
    t4_to_t10.convert(folder / "s.1.mesh", folder / "mesh.inp", crack_marker=5, held=case.held)


def convergence(folder: Path, names: list[str], pressure: float = 15.0, solver: str = "calculix") -> list[str]:
    """The first crack of the Pipe Problem under a constant pressure, at several sizes: a line each. The front's two ends, where
    it meets the wall, are in no figure."""
    lines = [
        f"{'':<8} {'vertices':>9} {'triangles':>9} {'tets':>8} {'nodes':>8} {'K_I deepest':>12} {'largest':>8}, MPa sqrt(mm)"
    ]
    for name in names:
        case = Case(size=SIZES[name])
        at = folder / name
        at.mkdir()
        pipe_mesh(at, case)
        (at / "job.inp").write_text(mechanics.deck(case, thermal=False))
        (at / "pressure.inp").write_text(mechanics.uniform_pressure(pressure))
        result = solve(at, solver)
        deck = read_deck(at / "mesh.inp")
        solid = Solid(case.material.young, case.material.poisson)
        moved = read_nodal(result, "DISP", 3)
        front, found = along_front(deck, solid, moved, None, read_pressure(at / "pressure.inp", deck))
        deepest = np.hypot(*front.points[:, :2].T).argmin()
        triangles = sum(len(faces) for surface, faces in deck.surfaces.items() if not surface.endswith("B"))
        vertices = len(t4_to_t10.medit(at / "s.1.mesh")[0])
        lines.append(
            f"{name:<8} {vertices:>9,} {triangles:>9,} {len(deck.elements):>8,} {len(deck.nodes):>8,}"
            f" {found[deepest, 0]:>12.1f} {found[1:-1, 0].max():>8.1f}  {PAPER.get(name, '')}".rstrip()
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES), help="for the mesh's convergence (all)")
    parser.add_argument("--solver", choices=SOLVERS, default="calculix", help="of the solid (%(default)s)")
    wanted = parser.parse_args()
    activate()
    with tempfile.TemporaryDirectory(prefix="fishplate-pipe-") as name:
        folder = Path(name)
        try:
            rows = cylinder_rows(folder, Cylinder(), wanted.solver)
            rows += penny_rows(folder / "penny", solver=wanted.solver) + wall_rows(folder / "wall", solver=wanted.solver)
            print(HEAD)
            print("\n".join(map(str, rows)))
            print("\n" + "\n".join(convergence(folder, wanted.sizes, solver=wanted.solver)))
        except process.Failed as failed:
            print(f"validation: {failed}", file=sys.stderr)
            return 1
    return 0 if all(abs(row.error) <= row.allowed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

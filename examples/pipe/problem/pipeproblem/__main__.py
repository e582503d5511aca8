"""The Pipe Problem: `python -m pipeproblem`. Starts its six sites, and grows the crack step by step.

Killed, it goes on where it was when it is started again with the same --name and --output.
"""

import argparse
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fishplate

from . import coupling, crack, fields, mechanics
from .case import SIZES, Case
from .sites import Failed, Located, Sites, end_left_over

from pipedemo.process import end_by_signals  # noqa: E402  (sites.py told where)
from pipedemo.server import fishplate_binary  # noqa: E402

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = {"gmsh": "Gmsh", "tetgen": "TetGen", "ccx": "CalculiX"}
SOLVERS = {"calculix": ("thermal", "mechanical"), "getdp": ("thermal-getdp", "mechanical-getdp")}
"""Services of the solid's solvers: two have the same interface."""
VOLUME_MESHERS = ("tetgen", "gmsh")
EDGES = 8
"""Of the data from site to site, how many of the largest are told."""
GAS_PROGRAMS = {name: "OpenFOAM" for name in ("rhoSimpleFoam", "gmshToFoam", "checkMesh")}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeproblem", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="coarse", help="how finely it is meshed; small and large are the paper's")
    add("--steps", type=int, default=3, help="of the crack, unless it breaks through before (%(default)s)")
    add("--length", type=float, default=math.inf, help="mm of the crack along the bore, at which no step follows")
    add("--volume-mesher", choices=VOLUME_MESHERS, default="tetgen", help="which one (%(default)s)")
    add("--solver", choices=SOLVERS, default="calculix", help="of heat and stress in the solid (%(default)s)")
    add("--pressure", type=float, help="MPa; with it no gas flows: a constant pressure, no temperatures")
    add("--fields", action="store_true", help="save meshes and fields of each step as VTU, for ParaView")
    add("--name", default="pipe", help="of the run (%(default)s)")
    add("--anew", action="store_true", help="forget what a run of this name had done")
    add("--fishplate", type=Path, help="the binary (FISHPLATE, target/release, target/debug, then PATH)")
    add("--output", type=Path, default=ROOT / "demo-output", help="where results and the run go (%(default)s)")
    return parser.parse_args()


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def missing(wanted: argparse.Namespace, path: str) -> str:
    """What has to be installed first, and how; empty if nothing."""
    programs = PROGRAMS if wanted.pressure is not None else PROGRAMS | GAS_PROGRAMS
    programs = programs | ({"getdp": "GetDP"} if wanted.solver == "getdp" else {})
    lost = {product: name for name, product in programs.items() if shutil.which(name, path=path) is None}
    if not lost:
        return ""
    said = " and ".join(f"{product} is missing (no {name} on PATH)" for product, name in lost.items())
    install = ["examples/pipe/install.sh"] if lost.keys() - {"GetDP"} else []
    said += ": please run " + " and ".join(install + ["apt-get install getdp"] * ("GetDP" in lost))
    return said + "; without the gas, --pressure 15 does" if list(lost) == ["OpenFOAM"] else said


def forget(run: Path, sites: Path) -> None:
    """Removes a run and its sites, and ends servers that a killed one left."""
    for site in sites.iterdir() if sites.is_dir() else ():
        end_left_over(site)
    for folder in (run, sites):
        shutil.rmtree(folder, ignore_errors=True)


def solve(
    run: fishplate.Run,
    where: Located,
    case: Case,
    wanted: argparse.Namespace,
    begin: Callable[[int], object] = lambda number: None,
) -> list[crack.Step]:
    """The crack's growth, with a picture of it in the run's report; `begin` is told the number of each step before it."""
    thermal, mechanical = SOLVERS[wanted.solver]
    used = crack.services(run, where.urls, f"volume-mesher-{wanted.volume_mesher}", mechanical, **where.settings)
    conditions = replace(case.gas, conductivity=case.material.conductivity)
    state = None

    def loads(surface: object, solid: object) -> crack.Load:
        nonlocal state
        if wanted.pressure is not None:
            return crack.Load(mechanics.uniform_pressure(wanted.pressure).encode())
        gas_mesh = coupling.GAS_MESHES[wanted.size]
        state = coupling.couple(run, where, surface, solid, state, conditions=conditions, mesh=gas_mesh, thermal=thermal)
        return crack.Load(state.pressure, state.temperature, state)

    done = crack.grow(run, used, case, wanted.steps, loads, begin)
    image = wanted.output / "crack.png"
    crack.picture(used, case, done).picture.save(image)
    last = done[-1]
    run.picture(image, f"after {len(done)} steps: {last.depth:.1f} mm deep, {last.ligament:.1f} mm of the wall left")
    return done


def moved(run: fishplate.Run, sites: Sites) -> str:
    """What went by reference from site to site, a line each, the largest first."""
    at = {name: site for site, server in sites.servers.items() for name in server.urls}
    found = sorted(((edge.bytes, ends) for ends, edge in run.edges().items() if edge.bytes), reverse=True)
    lines = [f"{'MB':>8}  by reference from site to site"]
    for size, ends in found[:EDGES]:
        maker, taker = (f"{at[name]}/{name}" if name in at else name for name in ends)
        lines.append(f"{size / 1e6:>8.2f}  {maker:<30} to {taker}")
    if rest := found[EDGES:]:
        lines.append(f"{sum(size for size, _ in rest) / 1e6:>8.2f}  {len(rest)} others")
    return "\n".join(lines)


def main() -> int:
    wanted = options()
    end_by_signals()
    wanted.output.mkdir(parents=True, exist_ok=True)
    case = Case(size=SIZES[wanted.size], greatest_length=wanted.length)
    # As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = time.monotonic()
    if lost := missing(wanted, environment["PATH"]):
        print(f"pipeproblem: {lost}", file=sys.stderr)
        return 1
    folder, journal = (wanted.output / f"{wanted.name}.{part}" for part in ("sites", "run"))
    if wanted.anew:
        forget(journal, folder.resolve())
    try:
        with (
            Sites(fishplate_binary(wanted.fishplate), folder, environment, say) as where,
            fishplate.Run(wanted.name, journal, retries=1, progress=True) as run,
        ):
            done = solve(run, where, case, wanted)
            # Last, so that a run that has ended can be asked for them.
            collection = fields.save(run, where, done, wanted.output) if wanted.fields else None
            report = run.report(wanted.output / "pipe-report.html")
            sent, received = run.transferred
            by_edge = moved(run, where)
    except (fishplate.Error, coupling.NotCoupled, Failed, OSError, ValueError) as error:
        print(f"pipeproblem: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        return 1
    print(crack.table(done))
    through = "broken through" if crack.is_through(case, done[-1]) else "the wall holds"
    seconds, megabytes = time.monotonic() - started, (sent + received) / 1e6
    print(f"{through} after {len(done)} steps, {seconds:.0f} s; the workflow itself moved {megabytes:.2f} MB")
    print(by_edge)
    print(f"picture: {wanted.output / 'crack.png'}\nreport:  {report}" + (f"\nfields:  {collection}" if collection else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

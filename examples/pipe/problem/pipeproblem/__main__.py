"""The Pipe Problem: `python -m pipeproblem`. Starts its six sites, and grows the crack step by step.

Killed, it goes on where it was when it is started again with the same --name and --output.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import fishplate

from . import coupling, crack, mechanics
from .case import SIZES, Case
from .sites import Failed, Sites

from pipedemo.server import fishplate_binary  # noqa: E402  (sites.py told where)

ROOT = Path(__file__).resolve().parents[4]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeproblem", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="coarse", help="how finely it is meshed; small and large are the paper's")
    add("--steps", type=int, default=3, help="of the crack, unless it breaks through before (%(default)s)")
    add("--volume-mesher", choices=("tetgen", "gmsh"), default="tetgen", help="which one (%(default)s)")
    add("--pressure", type=float, help="MPa; with it no gas flows: a constant pressure, no temperatures")
    add("--name", default="pipe", help="of the run (%(default)s)")
    add("--fishplate", type=Path, help="the binary (target/release, target/debug, then PATH)")
    add("--output", type=Path, default=ROOT / "demo-output", help="where results and the run go (%(default)s)")
    return parser.parse_args()


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def solve(run: fishplate.Run, where: Sites, case: Case, wanted: argparse.Namespace) -> list[crack.Step]:
    """The crack's growth, with a picture of it in the run's report."""
    used = crack.services(run, where.urls, f"volume-mesher-{wanted.volume_mesher}", **where.settings)
    conditions = replace(case.gas, conductivity=case.material.conductivity)
    state = None

    def loads(surface: object, solid: object) -> crack.Load:
        nonlocal state
        if wanted.pressure is not None:
            return crack.Load(mechanics.uniform_pressure(wanted.pressure).encode())
        gas_mesh = coupling.GAS_MESHES[wanted.size]
        state = coupling.couple(run, where, surface, solid, state, conditions=conditions, mesh=gas_mesh)
        return crack.Load(state.pressure, state.temperature, state)

    done = crack.grow(run, used, case, wanted.steps, loads)
    image = wanted.output / "crack.png"
    crack.picture(used, case, done).save(image)
    last = done[-1]
    run.picture(image, f"after {len(done)} steps: {last.depth:.1f} mm deep, {last.ligament:.1f} mm of the wall left")
    return done


def main() -> int:
    wanted = options()
    wanted.output.mkdir(parents=True, exist_ok=True)
    case = Case(size=SIZES[wanted.size])
    # As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = time.monotonic()
    folder = wanted.output / f"{wanted.name}.sites"
    try:
        with (
            Sites(fishplate_binary(wanted.fishplate), folder, environment, say) as where,
            fishplate.Run(wanted.name, wanted.output / f"{wanted.name}.run", retries=1) as run,
        ):
            done = solve(run, where, case, wanted)
            report = run.report(wanted.output / "pipe-report.html")
            sent, received = run.transferred
    except (fishplate.Error, coupling.NotCoupled, Failed, OSError, ValueError) as error:
        print(f"pipeproblem: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        return 1
    print(crack.table(done))
    through = "broken through" if done[-1].ligament < case.least_ligament else "the wall holds"
    seconds, megabytes = time.monotonic() - started, (sent + received) / 1e6
    print(f"{through} after {len(done)} steps, {seconds:.0f} s; the workflow itself moved {megabytes:.2f} MB")
    print(f"picture: {wanted.output / 'crack.png'}\nreport:  {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The pipe demo: a thick-walled pipe under internal pressure, meshed and solved by unmodified
third-party programs that Fishplate makes into web services. docs/guides/pipe.md tells more."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INSTALL = "please run examples/pipe/install.sh, then .venv/bin/python examples/pipe/demo.py"

if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or later is needed: {INSTALL}")
try:
    from pipedemo import bench, chain, picture, process, report, stress
    from pipedemo.case import SIZES, Case
    from pipedemo.process import Failed
    from pipedemo.runner import Direct, Services
    from pipedemo.server import Server, fishplate_binary
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}: {INSTALL}")

STARTED = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"[{time.monotonic() - STARTED:5.1f} s] {text}", file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    """The command line."""
    case = Case()
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--size", type=int, choices=SIZES, default=1, help="problem size of the paper's Table 1")
    add("--inner", type=float, default=case.inner, help="inner radius, mm (%(default)s)")
    add("--outer", type=float, default=case.outer, help="outer radius, mm (%(default)s)")
    add("--length", type=float, default=case.length, help="length, mm (%(default)s)")
    add("--pressure", type=float, default=case.pressure, help="pressure, MPa (%(default)s)")
    add("--young", type=float, default=case.young, help="Young's modulus, MPa (%(default)s)")
    add("--poisson", type=float, default=case.poisson, help="Poisson's ratio (%(default)s)")
    add("--mesh-size", type=float, help="side of a surface triangle, mm (by --size)")
    add(
        "--solver",
        choices=("ITERATIVE CHOLESKY", "ITERATIVE SCALING", "SPOOLES"),
        default=case.solver,
        help="CalculiX's equation solver (%(default)s)",
    )
    add("--repeat", type=int, default=3, help="runs of each step each way, at most (%(default)s)")
    add("--fishplate", type=Path, help="the binary (FISHPLATE, target/release, target/debug, then PATH)")
    add("--direct", action="store_true", help="run the programs directly only, without Fishplate")
    add("--output", type=Path, default=ROOT / "demo-output", help="where results go (%(default)s)")
    add("--json", action="store_true", help="also write the figures to pipe.json in the output")
    chosen = parser.parse_args()
    if chosen.repeat < 1:
        parser.error("--repeat must be at least 1")
    return chosen


def case_of(chosen: argparse.Namespace) -> tuple[Case, int | None]:
    """The case asked for, and the paper's problem size if it is one."""
    mesh_size, tet_volume = SIZES[chosen.size]
    size = chosen.size
    if chosen.mesh_size is not None:
        # Tetrahedra in the proportion of size 1.
        size, mesh_size = None, chosen.mesh_size
        tet_volume = 0.35 * mesh_size**3
    names = ("inner", "outer", "length", "pressure", "young", "poisson", "solver")
    given = {name: getattr(chosen, name) for name in names}
    case = Case(**given, mesh_size=mesh_size, tet_volume=tet_volume)
    if (case.inner, case.outer, case.length) != (Case.inner, Case.outer, Case.length):
        size = None
    return case, size


def solve(case: Case, runners: dict, folder: Path, repeat: int):
    """The whole chain: the result file, the mesh's size, and the times of the components."""
    rows = []

    def run(step):
        files, row = bench.run_step(step, runners, folder, repeat, say)
        rows.append(row)
        return files

    surface = run(chain.surface_mesher(case))
    volume = run(chain.volume_mesher(case, surface["surface"]))
    counts = chain.mesh_counts(volume)
    say("mesh: {:,} vertices, {:,} triangles, {:,} tetrahedra".format(*counts))
    converted = run(chain.converter(**volume))
    deck = folder / "job.inp"
    deck.write_text(chain.input_deck(case, volume["nodes"]), encoding="ascii")
    result = run(chain.solver(deck, converted["mesh"]))
    return result["result"], counts, rows


def demo(chosen: argparse.Namespace) -> None:
    """Runs the demo in a temporary directory that goes with it."""
    case, size = case_of(chosen)
    service_files = sorted((HERE / "services").glob("*.toml"))
    # As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH.
    environment = os.environ | {"PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fishplate-pipe-")))
        runners = {"direct": Direct(service_files, environment)}
        if not chosen.direct:
            binary = fishplate_binary(chosen.fishplate)
            say(f"starting {binary} serve, {len(service_files)} services")
            server = stack.enter_context(Server(binary, service_files, folder, environment))
            for name, url in server.urls.items():
                say(f"  {name} {url}")
            runners["service"] = Services(binary, server.urls)
        stack.callback(process.undisturbed)
        result, counts, rows = solve(case, runners, folder / "runs", chosen.repeat)
        say("reading the stresses")
        field = stress.read_frd(result)
        hoop = stress.bore_hoop(case, field)
        say("drawing the picture")
        chosen.output.mkdir(parents=True, exist_ok=True)
        image = chosen.output / "pipe.png"
        picture.draw(case, field, hoop, counts, image, services="service" in runners)
        shutil.copy(result, chosen.output / "pipe.frd")
    print(f"{report.mesh_table(counts, size)}\n\n{report.time_table(rows)}\n")
    print(report.hoop_line(hoop))
    say(f"picture: {image}")
    if chosen.json:
        figures = report.figures(case, counts, hoop, rows)
        (chosen.output / "pipe.json").write_text(json.dumps(figures, indent=2) + "\n")
        say(f"figures: {chosen.output / 'pipe.json'}")


if __name__ == "__main__":
    sys.exit(process.main("demo", lambda: demo(options())))

"""The paper's Tables 1 and 2: one step of the Pipe Problem directly, through services by reference, and by value.

The step is the crack's first: mesh, one solution of the gas, its heat in the wall, stress, stress intensities. Directly is
`direct.sh`, which copies files; the services are at six sites, and what it says of a component is the client's time.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import machine  # noqa: E402
from tools import ROOT, Tools  # noqa: E402

PROBLEM = ROOT / "examples/pipe/problem"

DIRECT, REFERENCE, VALUE = "directly", "by reference", "by value"
TITLES = {
    "meshing-loop": "Meshing Loop",
    "t4-to-t10": "T4 to T10",
    "generalized-mesher": "Generalized Mesher",
    "fluid-thermal": "Fluid/Thermal",
    "film-and-pressure": "gas to solid (ours)",
    "thermal": "Solid thermal",
    "wall-temperature": "solid to gas (ours)",
    "mechanical": "Mechanical",
    "fracture-mechanics": "Fracture mechanics (ours)",
}
SIZES = ("small", "large")
"""The paper's."""
PAPER = ("meshing-loop", "t4-to-t10", "generalized-mesher", "fluid-thermal")
"""Components of the paper's Table 2."""


def run(tools: Tools, rounds: int, size: str) -> dict[str, Any]:
    """`measure`, in the Python that has the libraries of the problem's programs."""
    words = [ROOT / ".venv/bin/python", __file__, "--size", size, "--rounds", str(rounds), "--json"]
    words += ["--binary", tools.binary, "--scratch", tools.scratch]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        told, _ = process.communicate()
    finally:
        # Ended from outside, it ends the sites that it started.
        process.terminate()
        process.wait()
    if process.returncode:
        sys.exit(f"bench: pipe-{size} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(told)
    return found


def measure(tools: Any, rounds: int, size: str) -> dict[str, Any]:
    """In each round the three ways take turns, each round beginning with the next; what they give must be the same."""
    sys.path[:0] = [str(PROBLEM), str(PROBLEM.parent), str(PROBLEM / "programs")]
    import numpy as np
    from pipeproblem.case import SIZES, Case
    from pipeproblem.coupling import GAS_MESHES
    from pipeproblem.mechanics import deck
    from pipeproblem.sites import Sites

    case = Case(size=SIZES[size])
    told = numbers(case, GAS_MESHES[size])
    place = Path(tempfile.mkdtemp(prefix="pipe-", dir=tools.scratch))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    np.savetxt(place / "front.txt", case.first_front(), fmt="%.17g")
    (place / "job.inp").write_text(deck(case, thermal=True))
    ways: dict[str, list[dict[str, float]]] = {DIRECT: [], REFERENCE: [], VALUE: []}
    loads: list[float] = []
    answers: dict[str, Any] = {}
    counts: dict[str, int] = {}
    with Sites(tools.binary, place / "sites", environment, lambda text: print(text, file=sys.stderr)) as sites:
        for number in range(rounds):
            order = list(ways)[number % 3 :] + list(ways)[: number % 3]
            for way in order:
                loads.append(machine.load())
                if way == DIRECT:
                    times, folder = directly(told, place, place / f"direct-{number}", environment)
                    answer = np.loadtxt(folder / "fracture-mechanics/intensities")
                    counts = count(folder)
                else:
                    times, answer = by_services(told, place, sites, way)
                ways[way].append(times)
                if not np.allclose(answers.setdefault("intensities", answer), answer, rtol=1e-9):
                    raise SystemExit(f"bench: {way} gives other stress intensities")
                print(f"{way}: {sum(times.values()):.2f} s", file=sys.stderr)
    medians = {
        way: {name: statistics.median(times[name] for times in found) for name in TITLES} for way, found in ways.items()
    }
    totals = {way: [sum(times.values()) for times in found] for way, found in ways.items()}
    return {
        "size": size,
        "rounds": rounds,
        "load": {"least": min(loads), "most": max(loads)},
        "counts": counts,
        "seconds": medians,
        "total_seconds": {way: statistics.median(found) for way, found in totals.items()},
        "totals": totals,
    }


def numbers(case: Any, gas_mesh: Any) -> dict[str, float]:
    """What `direct.sh` wants, by the names of its variables in small letters."""
    pipe, gas, material, size = case.pipe, case.gas, case.material, case.size
    return {
        "inner": pipe.inner, "outer": pipe.outer, "bend": pipe.bend, "angle": pipe.angle, "passages": pipe.passages,
        "passage_radius": pipe.passage_radius, "size": size.surface, "crack_size": size.crack, "tet_volume": size.volume,
        "pressure": gas.pressure, "temperature": gas.temperature, "velocity": gas.velocity,
        "wall_temperature": gas.initial_wall_temperature, "conductivity": material.conductivity,
        "outside_coefficient": gas.outside_coefficient, "outside_temperature": gas.outside_temperature,
        "passage_coefficient": gas.passage_coefficient, "passage_temperature": gas.passage_temperature,
        "young": material.young, "poisson": material.poisson, "expansion": material.expansion,
        "reference": case.reference_temperature,
        "layers": gas_mesh.layers, "first": gas_mesh.first, "growth": gas_mesh.growth, "gas_size": gas_mesh.size,
    }  # fmt: skip


def directly(n: dict[str, float], place: Path, folder: Path, environment: dict[str, str]) -> tuple[dict[str, float], Path]:
    """Seconds of each component without services, and where its files are."""
    told = {name.upper(): f"{value:.17g}" for name, value in n.items()}
    told |= {"FRONT": str(place / "front.txt"), "DECK": str(place / "job.inp")}
    words = [str(ROOT / "benches/pipe/direct.sh"), str(PROBLEM), str(folder)]
    done = subprocess.run(words, env=environment | told, stdout=subprocess.PIPE, text=True, check=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {name: int(nanoseconds) / 1e9 for name, nanoseconds in rows}, folder


def count(folder: Path) -> dict[str, int]:
    """Table 1: the sizes of the meshes."""
    import meshio
    from calculix import read_mesh

    surface, volume = (meshio.read(folder / "meshing-loop" / name) for name in ("surface.mesh", "surface.1.mesh"))
    gas = meshio.read(folder / "fluid-thermal/gas.vtu")
    wall = meshio.read(folder / "fluid-thermal/wall.vtu")
    kinds = {block.type: len(block.data) for block in volume.cells}
    return {
        "solid vertices": len(volume.points),
        "solid triangles": sum(len(block.data) for block in surface.cells if block.type == "triangle"),
        "solid tetrahedra": kinds["tetra"],
        "solid nodes": len(read_mesh(folder / "t4-to-t10/mesh.inp").nodes),
        "interior vertices": len(gas.points),
        "interior triangles": len(wall.cells[0].data),
        "interior tetrahedra and prisms": sum(len(block.data) for block in gas.cells),
    }


def by_services(n: dict[str, float], place: Path, sites: Any, way: str) -> tuple[dict[str, float], Any]:
    """Seconds of each component through services, and the stress intensities."""
    import fishplate
    import numpy as np

    times: dict[str, float] = {}

    def service(name: str) -> Any:
        found = fishplate.Service(sites.urls[name], **sites.settings)
        return found.by_reference() if way == REFERENCE else found.options(outputs="value")

    def timed(component: str, work: Callable[[], Any]) -> Any:
        begin = time.monotonic()
        result = work()
        times[component] = times.get(component, 0.0) + time.monotonic() - begin
        return result

    def pick(*names: str) -> dict[str, float]:
        return {name: n[name] for name in names}

    front = np.loadtxt(place / "front.txt")

    def meshing_loop() -> tuple[Any, Any]:
        refine = np.empty((0, 4))
        pipe = pick("inner", "outer", "bend", "angle", "passages", "passage_radius", "size", "crack_size")
        while True:
            found = {"refine": refine} if len(refine) else {}
            surface = service("surface-mesher")(front=front, **pipe, **found).surface
            volume = service("volume-mesher-tetgen")(surface=surface, volume=n["tet_volume"]).mesh
            checked = service("mesh-check").options(outputs="value")(surface=surface, volume=volume)
            if checked.rejected == 0:
                return surface, volume
            refine = np.vstack([refine, checked.refine])

    surface, volume = timed("meshing-loop", meshing_loop)
    solid = timed("t4-to-t10", lambda: service("t4-to-t10")(volume=volume).mesh)
    gas_mesh = timed(
        "generalized-mesher",
        lambda: service("generalized-mesher")(
            surface=surface, size=n["gas_size"], **pick("layers", "first", "growth")
        ).mesh,
    )
    flow = timed(
        "fluid-thermal",
        lambda: service("fluid-thermal")(
            mesh=gas_mesh,
            initial_wall_temperature=n["wall_temperature"],
            **pick("pressure", "temperature", "velocity"),
        ),
    )
    cooled = pick("outside_coefficient", "outside_temperature", "passage_coefficient", "passage_temperature")
    mapped = timed(
        "film-and-pressure",
        lambda: service("film-and-pressure")(wall=flow.wall, mesh=solid, **pick("conductivity"), **cooled),
    )
    heated = timed("thermal", lambda: service("thermal")(deck=mapped.thermal, mesh=solid).result)
    walls = timed("wall-temperature", lambda: service("wall-temperature")(result=heated, mesh=solid))
    deck = (place / "job.inp").read_bytes()
    stressed = timed(
        "mechanical",
        lambda: service("mechanical")(
            deck=deck, mesh=solid, pressure=mapped.pressure, temperature=walls.temperature
        ).result,
    )
    intensities = timed(
        "fracture-mechanics",
        lambda: service("fracture-mechanics").options(outputs="value")(
            mesh=solid,
            result=stressed,
            pressure=mapped.pressure,
            **pick("young", "poisson", "expansion", "reference"),
        ).intensities,
    )
    return times, np.asarray(intensities)


def tables(found: dict[str, Any]) -> list[str]:
    """The paper's Tables 1 and 2 for what was measured, in Markdown."""
    seconds, totals = found["seconds"], found["total_seconds"]
    counts = found["counts"]
    lines = ["| " + " | ".join(counts) + " |", "|---" * len(counts) + "|"]
    lines += ["| " + " | ".join(f"{value:,}" for value in counts.values()) + " |", ""]
    lines += [f"| component | {DIRECT} | {REFERENCE} | | {VALUE} | |", "|---|---|---|---|---|---|"]

    def row(title: str, ways: dict[str, float]) -> str:
        cells = [f"{ways[DIRECT]:.2f} s"]
        for way in (REFERENCE, VALUE):
            cells += [f"{ways[way]:.2f} s", f"{100 * (ways[way] / ways[DIRECT] - 1):+.2f} %"]
        return f"| {title} | " + " | ".join(cells) + " |"

    lines += [row(title, {way: seconds[way][name] for way in seconds}) for name, title in TITLES.items()]
    four = {way: sum(seconds[way][name] for name in PAPER) for way in seconds}
    lines += [row("the paper's four", four), row("**total**", totals)]
    return lines


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("coarse", "small", "large"), default="coarse")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/fishplate")
    parser.add_argument("--scratch", type=Path, default=ROOT / "target", help="where all files are made")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.scratch) as scratch:
        tools = argparse.Namespace(binary=options.binary.resolve(), scratch=Path(scratch))
        found = measure(tools, options.rounds, options.size)
    if options.json:
        print(json.dumps(found))
        return
    print(f"\n{found['size']}, median of {found['rounds']}, load {found['load']['least']} to {found['load']['most']}\n")
    print(*tables(found), sep="\n")


if __name__ == "__main__":
    main()

"""The paper's Tables 1 and 2: one step of the Pipe Problem directly, through services by reference, and by value.

The step is the crack's first: mesh, one solution of the gas, its heat in the wall, stress, stress intensities, the next front.
Directly is `direct.sh`, which copies files and runs CalculiX itself, without our crunchix.py; the services are at six sites,
on loopback or across links, and what it says of a component is the client's time.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BENCHES = Path(__file__).resolve().parents[1]
sys.path += [str(BENCHES), str(BENCHES.parent / "interop")]

import machine  # noqa: E402
from tools import ROOT, Tools  # noqa: E402

PROBLEM = ROOT / "examples/pipe/problem"

DIRECT, REFERENCE, VALUE = WAYS = "directly", "by reference", "by value"
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
    "crack-extension": "Crack extension (ours)",
}
"""Components in their order; older results have no crack extension."""
MESHING_LOOP = ("surface-mesher", "volume-mesher-tetgen", "mesh-check")
"""Services of that component; all others are one each."""
SIZES = {"small": 5, "large": 3}
"""The paper's, and how many rounds are made of each."""
MEASUREMENTS = {f"pipe-{size}": size for size in SIZES}
"""Of run.py."""
PAPER = ("meshing-loop", "t4-to-t10", "generalized-mesher", "fluid-thermal")
"""Components of the paper's Table 2."""
PAPER_COUNTS = {
    "small": (4_835, 4_979, 22_045, None, 19_242, 3_065, 38_220),
    "large": (16_832, 10_322, 83_609, None, 41_216, 5_232, 85_183),
}
"""The paper's Table 1, in the order of `count`."""
PAPER_OVERHEADS = {"small": "2.76 % and 3.47 %", "large": "1.85 % and 1.74 %"}
"""In total, from its Table 2: the client in the same town, and far away."""
GOALS = {"small": 0.01, "large": 0.002, "large-link": 0.01}
"""Overhead in total that is aimed at, as a part of the time directly."""
FEW = 3
"""Rounds; fewer can't be told from chance."""

# Where the paper had its components: meshing and a client in Ithaca, New York, the generalized mesher and the fluid/thermal
# solver in Starkville, Mississippi, another client in Birmingham, Alabama. It does not say how far that was; these are ms there and back.
HUB, ROUND_TRIPS = "ithaca", {"starkville": 20.0, "birmingham": 10.0}
PLACES = {
    "geometry": "ithaca", "meshing": "ithaca", "flow-mesh": "starkville", "flow": "starkville",
    "solid": "birmingham", "fracture": "birmingham",
}  # fmt: skip


def run(tools: Tools, place: Any, rounds: int, size: str, across: bool) -> dict[str, Any]:
    """`measure`, in the Python that has the libraries of the problem's programs; `across` links, if that is said."""
    with links(place) if across else contextlib.nullcontext(({}, "")) as (ends, told):
        options = ["--size", size, "--rounds", rounds]
        if across:
            options += ["--places", json.dumps({site: [ends[at].address, *ends[at].inside] for site, at in PLACES.items()})]
        found = inner(tools, __file__, options, ends[HUB].inside if across else ())
    return {**found, "link": told} if across else found


@contextlib.contextmanager
def links(place: Any):
    """The ends of the links by name, and what they are."""
    from link import NoLink, star  # run.py tells where it is; this file as a program has no links

    try:
        with star(place, HUB, ROUND_TRIPS) as found:
            yield found
    except NoLink as problem:
        sys.exit(f"bench: no links: {problem}")


def inner(tools: Tools, program: str, options: list[Any], leading: Any = ()) -> dict[str, Any]:
    """What a program of this folder finds, in the Python that has the libraries."""
    words = [*leading, ROOT / ".venv/bin/python", program, *options, "--json"]
    words += ["--binary", tools.binary, "--scratch", tools.scratch]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    try:
        told, _ = process.communicate()
    finally:
        # Ended from outside, it ends the sites that it started.
        process.terminate()
        process.wait()
    if process.returncode:
        sys.exit(f"bench: {Path(program).name} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(told)
    return found


def environment() -> dict[str, str]:
    """For sites and programs: pip's gmsh and its python are found on PATH."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def libraries() -> None:
    """Lets the problem's modules be imported."""
    sys.path[:0] = [str(PROBLEM), str(PROBLEM.parent), str(PROBLEM / "programs")]


def measure(tools: Any, rounds: int, size: str, places: dict[str, list[str]]) -> dict[str, Any]:
    """In each round the three ways take turns, each round beginning with the next; what they give must be the same. Before,
    the programs are run once, so that no way has to read them from the disk."""
    libraries()
    import numpy as np
    from pipeproblem.case import SIZES, Case
    from pipeproblem.coupling import GAS_MESHES
    from pipeproblem.mechanics import deck
    from pipeproblem.sites import Place, Sites

    begin = time.monotonic()
    case = Case(size=SIZES[size])
    told = numbers(case, GAS_MESHES[size])
    place = Path(tempfile.mkdtemp(prefix="pipe-", dir=tools.scratch))
    np.savetxt(place / "front.txt", case.first_front(), fmt="%.17g")
    (place / "job.inp").write_text(deck(case, thermal=True))
    directly(numbers(Case(size=SIZES["coarse"]), GAS_MESHES["coarse"]), place, place / "warm")
    ways: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    loads: list[float] = []
    answers: list[Any] = []
    counts: dict[str, int] = {}
    at = {name: Place(address, tuple(leading)) for name, (address, *leading) in places.items()}
    with Sites(tools.binary, place / "sites", environment(), say, places=at) as sites:
        for number in range(rounds):
            for way in [*WAYS[number % 3 :], *WAYS[: number % 3]]:
                loads.append(machine.load())
                if way == DIRECT:
                    folder = place / "direct"
                    turn: dict[str, Any] = {"seconds": directly(told, place, folder)}
                    answer = [np.loadtxt(folder / name) for name in ("fracture-mechanics/intensities", "crack-extension/front")]
                    counts = counts or count(folder)
                    shutil.rmtree(folder)
                else:
                    empty_pools(sites)
                    turn, answer = by_services(told, place, sites, way)
                ways[way].append(turn)
                answers = answers or answer
                if not all(np.allclose(one, other, rtol=1e-9) for one, other in zip(answers, answer, strict=True)):
                    raise SystemExit(f"bench: {way} gives other stress intensities, or another front")
                say(f"{number + 1} of {rounds}, {way}: {sum(turn['seconds'].values()):.2f} s")
        if at:
            empty_pools(sites)
        across = grown(sites, place / "across") if at else {}
    if across:
        with Sites(tools.binary, place / "near", environment(), say) as sites:
            near = grown(sites, place / "loopback")
        if across.pop("answer") != near.pop("answer"):
            raise SystemExit("bench: the workflow has another answer across links than on loopback")
        across = {"workflow": {"link": across, "loopback": near}}
    shutil.rmtree(place)
    return {
        **across, "size": size, "rounds": rounds, "took": time.monotonic() - begin,
        "load": {"least": min(loads), "most": max(loads)}, "counts": counts, "ways": ways,
    }  # fmt: skip


def empty_pools(sites: Any) -> None:
    """Removes what a turn before has left: the same data would not be fetched again."""
    for server in sites.servers.values():
        pool = [*server.leading, server.fishplate, "pool"]
        told = subprocess.run([*pool, "list", "--data", server.data, "--json"], check=True, stdout=subprocess.PIPE, text=True)
        if digests := [one["digest"] for one in json.loads(told.stdout)["objects"] if one["digest"]]:
            subprocess.run([*pool, "remove", "--force", "--data", server.data, *digests], check=True, stdout=subprocess.DEVNULL)


def grown(sites: Any, folder: Path) -> dict[str, Any]:
    """The workflow itself, coarse, one step of the crack: seconds, bytes through its own process, and its answer."""
    import fishplate
    from pipeproblem.__main__ import solve
    from pipeproblem.case import SIZES, Case

    folder.mkdir()
    wanted = argparse.Namespace(size="coarse", steps=1, volume_mesher="tetgen", solver="calculix", pressure=None, output=folder)
    begin = time.monotonic()
    with fishplate.Run("links", folder / "run", progress=False) as run:
        (step,) = solve(run, sites, Case(size=SIZES["coarse"]), wanted)
        moved = sum(run.transferred)
    answer = {"intensities": step.intensities.tolist(), "following": step.following.tolist(), "residuals": step.load.coupled.residuals}
    return {"seconds": time.monotonic() - begin, "bytes": moved, "answer": answer}


def say(text: str) -> None:
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


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
        "outside_pressure": gas.outside_pressure, "passage_pressure": gas.passage_pressure,
        "held_x": case.held[0], "held_y": case.held[1], "held_z": case.held[2],
        "young": material.young, "poisson": material.poisson, "expansion": material.expansion,
        "reference": case.reference_temperature, "crack_growth": case.growth, "exponent": case.exponent,
        "layers": gas_mesh.layers, "first": gas_mesh.first, "growth": gas_mesh.growth, "gas_size": gas_mesh.size,
    }  # fmt: skip


def directly(n: dict[str, float], place: Path, folder: Path) -> dict[str, float]:
    """Seconds of each component without services; their files are in the folder."""
    told = {name.upper(): f"{value:.17g}" for name, value in n.items()}
    told |= {"FRONT": str(place / "front.txt"), "DECK": str(place / "job.inp")}
    words = [str(ROOT / "benches/pipe/direct.sh"), str(PROBLEM), str(folder)]
    done = subprocess.run(words, env=environment() | told, stdout=subprocess.PIPE, text=True, check=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {name: int(nanoseconds) / 1e9 for name, nanoseconds in rows}


def count(folder: Path) -> dict[str, int]:
    """Table 1: the sizes of the meshes."""
    import meshio
    import openfoam
    from calculix import read_mesh

    surface, volume = (meshio.read(folder / "meshing-loop" / name) for name in ("surface.mesh", "surface.1.mesh"))
    gas = openfoam.read_mesh(folder / "fluid-thermal/mesh")
    kinds = {block.type: len(block.data) for block in volume.cells}
    return {
        "solid vertices": len(volume.points),
        "solid triangles": sum(len(block.data) for block in surface.cells if block.type == "triangle"),
        "solid tetrahedra": kinds["tetra"],
        "solid nodes": len(read_mesh(folder / "t4-to-t10/mesh.inp").nodes),
        "interior vertices": len(gas.points),
        "interior triangles and quads": sum(patch.count for patch in gas.patches.values()),
        "interior tetrahedra and prisms": gas.cell_count,
    }


def by_services(n: dict[str, float], place: Path, sites: Any, way: str) -> tuple[dict[str, Any], list[Any]]:
    """Seconds of each component through services, of which its programs ran so long; bytes from site to site and through
    the client; and the answer: stress intensities and the next front."""
    import fishplate
    import numpy as np

    times: dict[str, float] = {}
    since, before = datetime.now(UTC), sum(fishplate.transferred())

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
    solid = timed("t4-to-t10", lambda: service("t4-to-t10")(volume=volume, **pick("held_x", "held_y", "held_z")).mesh)
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
    cooled = pick(*(f"{what}_{of}" for what in ("outside", "passage") for of in ("coefficient", "temperature", "pressure")))
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
    following = timed(
        "crack-extension",
        lambda: service("crack-extension").options(outputs="value")(
            intensities=intensities, growth=n["crack_growth"], **pick("inner", "outer", "bend", "exponent")
        ).front,
    )
    client = sum(fishplate.transferred()) - before
    programs = dict.fromkeys(times, 0.0)
    between = 0
    for component in times:
        for name in MESHING_LOOP if component == "meshing-loop" else (component,):
            url = sites.urls[name]
            called = fishplate.Service(url, **sites.settings)
            for job in called.jobs():
                if job.submitted >= since and job.started and job.ended:
                    programs[component] += (job.ended - job.started).total_seconds()
                    came = called.job(job.id).status.transfers
                    between += sum(one.bytes for one in came if not one.cached and urlsplit(one.peer).netloc != urlsplit(url).netloc)
    turn = {"seconds": times, "programs": programs, "bytes": {"client": client, "sites": between}}
    return turn, [np.asarray(intensities), np.asarray(following)]


def tables(found: dict[str, Any]) -> list[str]:
    """The paper's Tables 1 and 2 for what was measured, in Markdown."""
    ways, counts = found["ways"], found["counts"]
    rounds = range(found["rounds"])
    components = [name for name in TITLES if name in ways[DIRECT][0]["seconds"]]

    def seconds(way: str, names: Any, of: str = "seconds") -> list[float]:
        return [sum(turn[of][name] for name in names) for turn in ways[way]]

    def row(title: str, names: Any) -> str:
        direct = seconds(DIRECT, names)
        middle = statistics.median(direct)
        cells = [f"{middle:.2f} s"]
        for way in (REFERENCE, VALUE):
            through = seconds(way, names)
            added = statistics.median(through[k] - direct[k] for k in rounds)
            outside = statistics.median(a - b for a, b in zip(through, seconds(way, names, "programs"), strict=True))
            cells += [f"{statistics.median(through):.2f} s", f"{added:+.2f} s, {100 * added / middle:+.2f} %", f"{outside:.2f} s"]
        return f"| {title} | " + " | ".join(cells) + " |"

    lines = ["| | " + " | ".join(counts) + " |", "|---" * (len(counts) + 1) + "|"]
    lines += [f"| {found['size']} | " + " | ".join(f"{value:,}" for value in counts.values()) + " |"]
    if paper := PAPER_COUNTS.get(found["size"]):
        lines += ["| the paper's | " + " | ".join(f"{value:,}" if value else "" for value in paper) + " |"]
    lines += ["", f"| component | {DIRECT} | {REFERENCE} | added | outside of programs | {VALUE} | added | outside of programs |"]
    lines += ["|---" * 8 + "|"]
    lines += [row(TITLES[name], [name]) for name in components]
    lines += [row("the paper's four", PAPER), row("**total**", components), ""]

    direct = seconds(DIRECT, components)
    said = [
        f"Rounds: {found['rounds']}, in each of which the ways take turns: medians, and medians of what a round's way took more than "
        f"that round's {DIRECT}. {DIRECT.capitalize()} alone took {min(direct):.2f} to {max(direct):.2f} s. Outside of programs is "
        "what the client waited and no program of that component ran."
    ]
    goal = GOALS.get(f"{found['size']}-link" if "link" in found else found["size"])
    for way in (REFERENCE, VALUE):
        ratios = [one / other - 1 for one, other in zip(seconds(way, components), direct, strict=True)]
        said.append(f"{way.capitalize()} the total is {100 * min(ratios):+.2f} to {100 * max(ratios):+.2f} % in the rounds")
        said[-1] += f", median **{100 * statistics.median(ratios):+.2f} %**"
        said[-1] += f"; the goal of {100 * goal:g} %: {verdict(ratios, goal)}." if goal and way == REFERENCE else "."
        outside = [sum(turn["seconds"].values()) - sum(turn["programs"].values()) for turn in ways[way]]
        share = 100 * statistics.median(outside) / statistics.median(direct)
        said.append(f"Outside of programs {statistics.median(outside):.2f} s are {share:.2f} % of the time {DIRECT}")
        said[-1] += f", {'below' if share <= 100 * goal else 'above'} that goal." if goal and way == REFERENCE else "."
        moved = {by: statistics.median(turn["bytes"][by] for turn in ways[way]) / 1e6 for by in ("client", "sites")}
        said.append(f"{moved['client']:.2f} MB went through the client, {moved['sites']:.2f} MB from site to site.")
    if workflow := found.get("workflow"):
        link, loopback = workflow["link"], workflow["loopback"]
        said.append(
            f"The workflow itself, coarse and for one step of the crack, took {link['seconds']:.1f} s across these links and {loopback['seconds']:.1f} s "
            f"on loopback, one run each, with the same answer to the last digit; {link['bytes'] / 1e6:.2f} MB went through it."
        )
    if overheads := PAPER_OVERHEADS.get(found["size"]):
        said.append(f"The paper has {overheads}.")
    said.append(f"It took {found['took'] / 60:.0f} min.")
    return [*lines, " ".join(said)]


def verdict(ratios: list[float], goal: float) -> str:
    """Whether rounds are below a goal."""
    if len(ratios) < FEW:
        return f"fewer than {FEW} rounds don't say"
    below = sum(ratio <= goal for ratio in ratios)
    if below == len(ratios):
        return "all rounds are below"
    if below == 0:
        return "no round is below"
    return f"{below} of {len(ratios)} rounds are below, since programs differ by more from one time to the next"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=FEW)
    parser.add_argument("--places", type=json.loads, default={}, help="of sites by name: address, words before a command there")
    wanted = parser.parse_args()
    with scratch(wanted) as tools:
        found = measure(tools, wanted.rounds, wanted.size, wanted.places)
    if wanted.json:
        print(json.dumps(found))
        return
    print(f"\n{found['size']}, load {found['load']['least']} to {found['load']['most']}\n")
    print(*tables(found), sep="\n")


def options(said: str) -> argparse.ArgumentParser:
    """What programs of this folder take."""
    parser = argparse.ArgumentParser(description=said)
    parser.add_argument("--size", choices=("coarse", *SIZES), default="coarse")
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/fishplate")
    parser.add_argument("--scratch", type=Path, default=ROOT / "target", help="where all files are made")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    return parser


@contextlib.contextmanager
def scratch(wanted: argparse.Namespace):
    """The binary, and a directory that goes."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=wanted.scratch) as folder:
        yield argparse.Namespace(binary=wanted.binary.resolve(), scratch=Path(folder))


if __name__ == "__main__":
    main()

"""`run.py packaging`: measures, and writes the tables, the CSV and the plot."""

import argparse
import contextlib
from pathlib import Path

import machine
import measure
import tables
from drivers import Network
from link import NoLink, link
from measure import Cell, Plan
from place import ROOT, Place
from stacks import STACKS, Stack



def main(options: argparse.Namespace, place: Place, results: Path) -> None:
    chosen = [stack for stack in STACKS if not options.only or stack.name in options.only]
    stacks, left_out = measure.prepare(chosen, place)
    try:
        with link(place) if options.link else contextlib.nullcontext(Network()) as network:
            write(options, place, results, network, stacks, left_out)
    except NoLink as problem:
        print(f"  there is no link, only loopback here: {problem}", flush=True)


def plan(options: argparse.Namespace) -> Plan:
    """Across the link a call takes its round trips, and fewer calls tell as much."""
    default = Plan(rounds=3, longest=12) if options.link else Plan()
    sizes = options.sizes or default.sizes
    if options.quick:
        sizes = options.sizes or tuple(n for n in sizes if n <= 500)
        return Plan(sizes=sizes, rounds=2, cell=0.1, longest=3)
    return Plan(sizes=sizes, rounds=default.rounds, longest=default.longest)


def write(options: argparse.Namespace, place: Place, results: Path, network: Network,
          stacks: list[Stack], left_out: dict[str, str]) -> None:
    load = machine.load()
    cells = measure.measure(stacks, place, network, plan(options))
    text = page(options, place, network, stacks, left_out, cells, load)
    print(text)
    # Quick or partial figures do not replace whole ones.
    directory = results if whole(options) else place.built / "results"
    directory.mkdir(parents=True, exist_ok=True)
    base = directory / f"packaging-{network.name}"
    base.with_suffix(".md").write_text(text)
    base.with_suffix(".csv").write_text(tables.csv_text(network.name, cells))
    place.plot(Path(__file__).parent / "plot.py", base.with_suffix(".csv"))
    print(f"written to {base.relative_to(ROOT)}.md, .csv and .svg")


def whole(options: argparse.Namespace) -> bool:
    return not (options.quick or options.only or options.sizes)


def page(options: argparse.Namespace, place: Place, network: Network, stacks: list[Stack],
         left_out: dict[str, str], cells: list[Cell], load: float) -> str:
    about = machine.describe()
    words = ["benches/run.py packaging", "--link" if options.link else "",
             "--quick" if options.quick else "", "--pgo" if options.pgo else "", f"--only {','.join(options.only)}" if options.only else "",
             f"--sizes {','.join(map(str, options.sizes))}" if options.sizes else ""]
    versions = dict.fromkeys(version for stack in stacks if (version := stack.version(place)))
    lines = [
        f"# Matrices in every packaging, {network.name}", "",
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, Linux "
        f"{about['kernel']}; {about['date']}, {about['commit']}; `{' '.join(filter(None, words))}`; "
        f"load {load:.2f} to {machine.load():.2f}; {network.told}.", "",
        f"{'; '.join(versions)}. A matrix is n by n random floats of 32 bits; attachments and base64 "
        "carry them as little-endian bytes. One connection a client, kept alive.",
        *tables.standing(cells),
        tables.markdown(cells, network.name == "loopback"),
    ]
    if left_out:
        lines += ["", "Left out:", "", *(f"- {name}: {why}" for name, why in left_out.items())]
    return "\n".join(lines) + "\n"

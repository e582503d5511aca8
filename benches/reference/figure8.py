"""`run.py reference`: the paper's Figure 8, with the sizes that it misses, beside who else moves files.

Also: a thousand small references, and small calls beside a large transfer.
"""

import argparse
import contextlib
import csv
import io
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import beside
import machine
import sites
import small_references
import ways
from link import NoLink, link
from place import ROOT, Place
from sites import Ends
from tools import Tools
from ways import Way

SIZES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 8 * 10**9)
# Across 1 Gbit/s a gigabyte takes nine seconds, whatever the way.
LARGEST_LINKED = 10**9
LARGEST_QUICK = 10**7
CHUNK = 1 << 20
SEED = 2004

# Rounds of one size: until this many seconds were spent, within these bounds.
SPENT = 30.0
MOST_ROUNDS, LEAST_ROUNDS = 11, 3
# What is smaller may stay until the end: removing it would cost the next way's first files.
MAY_STAY = 10**8


@dataclass
class Cell:
    """One way with one size."""

    size: int
    way: Way
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main(options: argparse.Namespace, tools: Tools, place: Place, results: Path) -> None:
    load = machine.load()
    try:
        with link(place) if options.link else contextlib.nullcontext() as network:
            ends = Ends.across(network) if network else Ends()
            cells, left_out = measure(tools, ends, sizes(options), options.quick)
    except NoLink as problem:
        raise SystemExit(f"bench: there is no link here: {problem}") from problem
    more = []
    if not options.link and not options.sizes:
        more = [small_references.section(tools, options.quick), beside.section(tools, options.quick)]
    text = page(options, tools, ends, cells, left_out, load, more)
    print(text)
    # Quick or partial figures do not replace whole ones.
    whole = not (options.quick or options.sizes)
    base = (results if whole else place.built / "results") / f"reference-{ends.name}"
    base.parent.mkdir(parents=True, exist_ok=True)
    base.with_suffix(".md").write_text(text)
    base.with_suffix(".csv").write_text(table(ends, cells))
    place.plot(Path(__file__).parent / "figure8_plot.py", base.with_suffix(".csv"))
    print(f"written to {base.relative_to(ROOT)}.md, .csv and .svg")


def sizes(options: argparse.Namespace) -> tuple[int, ...]:
    if options.sizes:
        return options.sizes
    most = LARGEST_QUICK if options.quick else LARGEST_LINKED if options.link else SIZES[-1]
    return tuple(size for size in SIZES if size <= most)


def measure(tools: Tools, ends: Ends, chosen: tuple[int, ...], quick: bool) -> tuple[list[Cell], list[str]]:
    root = tools.scratch / "files"
    root.mkdir()
    cells, left_out = [], []
    with contextlib.ExitStack() as stack:
        near = stack.enter_context(sites.site(tools, ends.near, ends.in_near))
        far = stack.enter_context(sites.site(tools, ends.far, ends.in_far))
        found = [ways.copy(tools), *ways.fishplate(tools, ends, near, far),
                 *peers(tools, ends, root, stack, left_out)]
        for size in chosen:
            row = [Cell(size, way) for way in found]
            file = made(root / f"of-{size}", size)
            for round_ in rounds(row, quick):
                for cell in row:
                    stamp(file, f"{round_} {cell.way.name}")
                    warm(file)
                    move = cell.way.prepared(file)
                    os.sync()
                    began = time.monotonic()
                    move()
                    cell.seconds.append(time.monotonic() - began)
                    if size > MAY_STAY:
                        cell.way.cleared()
            file.unlink()
            told = ", ".join(f"{cell.way.name} {cell.median:.4f}" for cell in row)
            print(f"  {size_told(size)}: {told}", flush=True)
            cells += row
    return cells, left_out


def peers(tools: Tools, ends: Ends, root: Path, stack: contextlib.ExitStack, left_out: list[str]) -> list[Way]:
    found = ways.curl(tools, ends, stack.enter_context(sites.nginx(tools, ends, root)))
    with told_if_missing("rsync", left_out):
        found.append(ways.rsync(tools, ends, stack.enter_context(sites.rsync(tools, ends, root))))
    with told_if_missing("scp", left_out):
        found.append(ways.scp(tools, ends, *stack.enter_context(sites.sshd(tools, ends))))
    return found


@contextlib.contextmanager
def told_if_missing(name: str, left_out: list[str]) -> Iterator[None]:
    try:
        yield
    except sites.Missing as problem:
        left_out.append(f"{name}: {problem}")


def rounds(row: list[Cell], quick: bool) -> Iterator[int]:
    """All ways take turns within a round, so that whatever the machine does falls upon all."""
    least, most = (2, 2) if quick else (LEAST_ROUNDS, MOST_ROUNDS)
    for round_ in range(most):
        if round_ >= least and sum(sum(cell.seconds) for cell in row) > SPENT:
            return
        yield round_


def made(file: Path, size: int) -> Path:
    """A file that does not compress."""
    chunk = random.Random(SEED).randbytes(CHUNK)
    with open(file, "wb") as to:
        for begin in range(0, size, CHUNK):
            to.write(chunk[: min(CHUNK, size - begin)])
    return file


def warm(file: Path) -> None:
    """Has the page cache hold it, whatever was moved before."""
    with open(file, "rb", buffering=0) as source:
        while source.read(CHUNK):
            pass


def stamp(file: Path, text: str) -> None:
    """Makes it another file: a pool knows what it had."""
    with open(file, "r+b") as to:
        to.write(text.ljust(64).encode()[:64])


def table(ends: Ends, cells: list[Cell]) -> str:
    to = io.StringIO()
    rows = csv.writer(to, lineterminator="\n")
    rows.writerow(("network", "way", "bytes", "round", "seconds"))
    for cell in cells:
        for round_, seconds in enumerate(cell.seconds):
            rows.writerow((ends.name, cell.way.name, cell.size, round_, f"{seconds:.6f}"))
        rows.writerow((ends.name, cell.way.name, cell.size, "all", f"{cell.median:.6f}"))
    return to.getvalue()


def page(options: argparse.Namespace, tools: Tools, ends: Ends, cells: list[Cell], left_out: list[str],
         load: float, more: list[str]) -> str:
    here = machine.describe()
    chosen = sorted({cell.size for cell in cells})
    found = {(cell.way.name, cell.size): cell for cell in cells}
    names = list(dict.fromkeys((cell.way.name, cell.way.told) for cell in cells))
    lines = [
        f"# A file from one end to the other: {ends.name}", "",
        "Paper 000, Figure 8, one way: seconds of the whole command, medians. " + CAPTION, "",
        f"{here['processor']}, {here['cores']} cores, {here['memory_gib']} GiB, Linux "
        f"{here['kernel']}; {here['date']}, {here['commit']}; file system "
        f"{machine.file_system(tools.scratch)}; {ends.told}; load {load:.2f} to {machine.load():.2f}; "
        f"`benches/run.py reference{' --link' if options.link else ''}"
        f"{' --quick' if options.quick else ''}{' --pgo' if options.pgo else ''}`.", "",
        "| | " + " | ".join(size_told(size) for size in chosen) + " |",
        "|---|" + "---|" * len(chosen),
    ]
    for name, told in names:
        lines.append(f"| {told} | " + " | ".join(
            seconds_told(found[name, size].median) for size in chosen) + " |")
    lines += ["", "Ratios of medians, within the same rounds:", "",
              "| | " + " | ".join(size_told(size) for size in chosen) + " |",
              "|---|" + "---|" * len(chosen)]
    for one, other in (("reference", "curl"), ("reference", "curl-sha256"), ("same-server", "cp"),
                       ("value-mtom", "curl")):
        lines.append(f"| {one} / {other} | " + " | ".join(
            f"{found[one, size].median / found[other, size].median:.2f}" for size in chosen) + " |")
    rounds_told = ", ".join(f"{size_told(size)} {len(found['cp', size].seconds)}" for size in chosen)
    lines += ["", f"Rounds: {rounds_told}.", ""]
    lines += [f"Not measured: {what}." for what in left_out] + [""] * bool(left_out)
    lines += [f"![plot](reference-{ends.name}.svg)", ""] + more
    return "\n".join(lines)


CAPTION = (
    "By value, `fishplate call` sends the file; by reference it sends a URL and the server gets the data "
    "from the server that has it, verifies its SHA-256 and pools it; on the same server it becomes the "
    "program's input as it is. The program is `true`. nginx, rsync's daemon and sshd are where the data "
    "is; what they are asked by runs where the data goes. Every command starts anew, with its connection.")


def size_told(size: int) -> str:
    factor, unit = next(pair for pair in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"), (1, "B"))
                        if size >= pair[0])
    return f"{size / factor:g} {unit}"


def seconds_told(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 10 else f"{seconds:.1f}"

#!/usr/bin/env python3
"""Serial operations against collective ones in MolDyn, as in the paper on MPIWS (section 4.5.1, Figures 23 and 24): the time by the
number of particles, and the speedup by the number of ranks. Runs take turns; the least time of each counts."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from demo import checked, compile_program, energy, fishplate_binary, process
from demo import Failed

SERIAL = "barrier=serial,allreduce=reduce-broadcast,reduce=serial,broadcast=serial"
"""What the paper compares with: each rank by itself with the root, one after the other."""
SIDES = {"serial": {"FISHPLATE_ALGORITHMS": SERIAL}, "collective": {}}


def seconds(binary: Path, folder: Path, chosen: argparse.Namespace, side: str, cells: int, ranks: int) -> float:
    """The time of one run, whose energy has to be right."""
    words = [binary, "run", "-n", str(ranks), "--transport", chosen.transport, folder / "moldyn", str(cells)]
    out, err = folder / "out", folder / "err"
    begun = time.monotonic()
    code = process.run(words, folder, out, err, os.environ | SIDES[side])
    took = time.monotonic() - begun
    if code:
        raise Failed(f"fishplate run ended with {code}\n{process.tail(err)}")
    checked(energy(out.read_text()), cells)
    return took


def figures(chosen: argparse.Namespace) -> None:
    binary = fishplate_binary(chosen.fishplate)
    with tempfile.TemporaryDirectory(prefix="fishplate-moldyn-") as name:
        folder = Path(name)
        compile_program(binary, folder)
        cases = [(cells, max(chosen.ranks)) for cells in chosen.cells]
        cases += [(max(chosen.cells), ranks) for ranks in chosen.ranks if ranks != max(chosen.ranks)]
        least: dict[tuple[str, int, int], float] = {}
        for _ in range(chosen.rounds):
            for cells, ranks in cases:
                for side in SIDES:
                    took = seconds(binary, folder, chosen, side, cells, ranks)
                    key = (side, cells, ranks)
                    least[key] = min(took, least.get(key, took))
                    print(f"{4 * cells**3:,} particles, {ranks} ranks, {side}: {took:.2f} s", file=sys.stderr, flush=True)
    print(f"Figure 23: seconds by particles, {max(chosen.ranks)} ranks, {chosen.transport}\n")
    table(["particles", "message", *SIDES], [
        [f"{4 * cells**3:,}", f"{32 * cells**3 / 1000:,.0f} kB", *(f"{least[side, cells, max(chosen.ranks)]:.2f}" for side in SIDES)]
        for cells in chosen.cells
    ])
    cells = max(chosen.cells)
    print(f"\nFigure 24: speedup by ranks, {4 * cells**3:,} particles, {chosen.transport}, {os.cpu_count()} processors\n")
    table(["ranks", *SIDES], [
        [str(ranks), *(f"{least['collective', cells, min(chosen.ranks)] / least[side, cells, ranks]:.2f}" for side in SIDES)]
        for ranks in chosen.ranks
    ])


def table(head: list[str], rows: list[list[str]]) -> None:
    """Columns as wide as they need."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--cells", type=int, nargs="+", default=[8, 13], help="in each direction; 19 is the paper's largest (8 13)")
    add("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], help="how many (1 2 4 8)")
    add("--rounds", type=int, default=3, help="runs of each (%(default)s)")
    add("--transport", default="soap", choices=("soap", "tcp", "shared-memory"), help="of messages (%(default)s)")
    add("--fishplate", type=Path, help="the binary (FISHPLATE, target/release, target/debug, then PATH)")
    chosen = parser.parse_args()
    if min(*chosen.cells, *chosen.ranks, chosen.rounds, 1) < 1:
        parser.error("all numbers must be at least 1")
    chosen.cells, chosen.ranks = sorted(chosen.cells), sorted(chosen.ranks)
    return chosen


if __name__ == "__main__":
    sys.exit(process.main("figures", lambda: figures(options())))

"""examples/moldyn as whole commands, in turns: with all collective operations serial and as they are chosen (paper 002, 4.5.1), beside the peers."""

import os
import subprocess
import time
from dataclasses import replace

from peers import IMPLEMENTATIONS, ROOT, Peers

# Cells in each direction, and the energy that Java Grande's MolDyn has after 50 steps.
PUBLISHED = {8: 1731.4306625334357, 13: 7397.392307839352}
SERIAL = "barrier=serial,allreduce=reduce-broadcast,reduce=serial,broadcast=serial"
TURNS = (*IMPLEMENTATIONS,
         *(replace(one, title=f"{one.title}, serial", environment=(("FISHPLATE_ALGORITHMS", SERIAL),))
           for one in IMPLEMENTATIONS if one.name in ("ours-tcp", "ours-soap")))


def measure(peers: Peers, rounds: int, sizes: tuple[int, ...], ranks: tuple[int, ...], left_out: dict[str, str]) -> list[dict]:
    """Seconds of each round."""
    rows = []
    for cells in sizes:
        for count in ranks:
            turns = {}
            for _ in range(rounds):
                for one in TURNS:
                    try:
                        turns.setdefault(one.title, []).append(seconds(peers, one, count, cells))
                    except (subprocess.SubprocessError, ValueError) as problem:
                        left_out[f"MolDyn, {one.title}, {count} ranks"] = str(problem)
            rows.append({"particles": 4 * cells**3, "ranks": count, "seconds": turns})
    return rows


def seconds(peers: Peers, one, ranks: int, cells: int) -> float:
    program = peers.program(one.family, ROOT / "examples/moldyn/moldyn.c", "-lm")
    begin = time.monotonic()
    done = subprocess.run(peers.launch(one, ranks, program, cells), check=True, capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, env={**os.environ, **dict(one.environment)})
    took = time.monotonic() - begin
    energy = float(done.stdout.split()[-1])
    if abs(energy / PUBLISHED[cells] - 1) > 1e-10:
        raise ValueError(f"the energy is {energy}, and not {PUBLISHED[cells]}")
    return took


def table(rows: list[dict]) -> list[str]:
    if not rows:
        return []
    titles = list(dict.fromkeys(title for row in rows for title in row["seconds"]))
    head = " | ".join(f"{row['particles']:,} particles, {row['ranks']} ranks" for row in rows)
    lines = [f"| side | {head} |",
             f"|---|{'---|' * len(rows)}"]
    for title in titles:
        shown = []
        for row in rows:
            took = sorted(row["seconds"].get(title, ()))
            shown.append(f"{took[0]:.2f}, {took[len(took) // 2]:.2f}" if took else "")
        lines.append(f"| {title} | {' | '.join(shown)} |")
    return lines

"""examples/moldyn as whole commands, in turns: with all collective operations serial and as they are chosen (paper 002, 4.5.1), beside the peers."""

import contextlib
import os
import subprocess
import time
from dataclasses import replace

from drivers import end_with_us
from peers import IMPLEMENTATIONS, ROOT, Peers
from preparation import PreparationFailed

PATIENCE, END = 600, 10  # seconds for a run, and for its ranks to go

# Cells in each direction, and the energy that Java Grande's MolDyn has after 50 steps.
PUBLISHED = {8: 1731.4306625334357, 13: 7397.392307839352}
SERIAL = "barrier=serial,allreduce=reduce-broadcast,reduce=serial,broadcast=serial"
TURNS = (*IMPLEMENTATIONS,
         *(replace(one, title=f"{one.title}, serial", environment=(("FISHPLATE_ALGORITHMS", SERIAL),))
           for one in IMPLEMENTATIONS if one.name in ("ours-tcp", "ours-soap")))


def measure(peers: Peers, rounds: int, sizes: tuple[int, ...], ranks: tuple[int, ...], left_out: dict[str, str]) -> list[dict]:
    """Seconds of each round; a side that fails once has no more turns."""
    rows, taking_turns = [], list(TURNS)
    for cells in sizes:
        for count in ranks:
            turns = {}
            for _ in range(rounds):
                for one in list(taking_turns):
                    try:
                        turns.setdefault(one.title, []).append(seconds(peers, one, count, cells))
                    except (subprocess.SubprocessError, PreparationFailed, OSError, ValueError, IndexError) as problem:
                        taking_turns.remove(one)
                        left_out[f"MolDyn, {one.title}, {count} ranks"] = str(problem)
            rows.append({"particles": 4 * cells**3, "ranks": count, "seconds": turns})
    return rows


def seconds(peers: Peers, one, ranks: int, cells: int) -> float:
    program = peers.program(one.family, ROOT / "examples/moldyn/moldyn.c", "-lm")
    begin = time.monotonic()
    said = output(peers.launch(one, ranks, program, cells), {**os.environ, **dict(one.environment)})
    took = time.monotonic() - begin
    energy = float(said.split()[-1])
    if abs(energy / PUBLISHED[cells] - 1) > 1e-10:
        raise ValueError(f"the energy is {energy}, and not {PUBLISHED[cells]}")
    return took


def output(command: list[str], environment: dict[str, str]) -> str:
    """What a launcher prints; if it has to be ended, it can end its ranks before."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment, start_new_session=True, preexec_fn=end_with_us) as launcher:
        try:
            said, errors = launcher.communicate(timeout=PATIENCE)
        except BaseException:
            launcher.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.wait(END)
            launcher.kill()
            raise
    if launcher.returncode:
        raise subprocess.CalledProcessError(launcher.returncode, command, said, errors)
    return said


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

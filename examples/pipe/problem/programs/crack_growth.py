#!/usr/bin/env python3
"""The Pipe Problem as a program, and so as a service: grows the crack step by step, by services of the sites. Ours; most of
those that it calls are not. A workflow: killed, its service ends the jobs it began; lost, the next attempt finds them (--reuse)."""

import argparse
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import fishplate
import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent))

from pipeproblem import crack  # noqa: E402
from pipeproblem.__main__ import SOLVERS, VOLUME_MESHERS, solve  # noqa: E402
from pipeproblem.case import SIZES, Case  # noqa: E402
from pipeproblem.coupling import NotCoupled  # noqa: E402

SITES = "PIPE_SITES"
"""The variable that names a file with the addresses (HOST:PORT) of the sites, a line each. It logs in there, and calls
nowhere else."""


def listed() -> dict[str, str]:
    """URLs of the sites' services, by name."""
    told = os.environ.get(SITES)
    if not told:
        raise ValueError(f"{SITES} is not set: it names the file with the sites' addresses")
    servers = [fishplate.Server(f"https://{address}") for address in Path(told).read_text().split()]
    return {name: f"{server.url}/{name}" for server in servers for name in server}


def rows(done: list[crack.Step]) -> np.ndarray:
    """A row a step: of the crack that it leads to, and of the stress intensities that led there."""
    return np.array(
        [
            (step.depth, step.length, step.ligament, step.added, step.intensities[:, 3].min(), step.intensities[:, 3].max())
            for step in done
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--length", type=float, default=Case.greatest_length)
    parser.add_argument("--volume-mesher", choices=VOLUME_MESHERS, required=True)
    parser.add_argument("--solver", choices=SOLVERS, required=True)
    parser.add_argument("--pressure", type=float)
    parser.add_argument("--reuse", action="store_true")
    wanted = parser.parse_args()
    wanted.output = Path()
    case = Case(size=SIZES[wanted.size], greatest_length=wanted.length)

    def begin(number: int) -> None:
        print(f"step {number} of {wanted.steps}", flush=True)

    try:
        with fishplate.Run("crack", retries=1, reuse=wanted.reuse, progress=False) as run:
            where = SimpleNamespace(urls=run.value(listed), settings={})
            done = solve(run, where, case, wanted, begin)
            run.report("report.html")
    except (fishplate.Error, NotCoupled, OSError, ValueError) as error:
        print(f"crack_growth: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        return 1
    print(crack.table(done))
    np.savetxt("steps.txt", rows(done))
    np.savetxt("front.txt", done[-1].following)
    return 0


if __name__ == "__main__":
    sys.exit(main())

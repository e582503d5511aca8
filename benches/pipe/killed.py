"""The Pipe Problem while its workflow, servers and programs are killed at random: it ends, with the answer that it has undisturbed.

Any process of a program may be hit, such as the tetgen of a volume mesher, the OpenFOAM that a script of ours runs, or the
Meshing Loop, which is a workflow too. A workflow that ended by itself, because a step failed too often, is started again as
one that was killed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from problem import environment, inner, libraries, options, say, scratch

import machine
from tools import Tools

AWAY = 5.0
"""Seconds for which a killed server is away, at most."""
MOST_STARTS = 200
"""Of a workflow: one that does not end by then never will."""


def run(tools: Tools, size: str, steps: int, every: float) -> dict[str, Any]:
    """`measure`, in the Python that has the libraries of the problem's programs."""
    return inner(tools, __file__, ["--size", size, "--steps", steps, "--every", every])


def measure(tools: Any, size: str, steps: int, every: float, seed: int) -> dict[str, Any]:
    """First undisturbed, then with a kill each `every` seconds on average; each time at sites of its own, which have no
    results of before."""
    draw = random.Random(seed)
    load = machine.load()
    with begun(tools, "undisturbed", size, steps) as (sites, undisturbed):
        while not undisturbed.ended(every):
            if undisturbed.starts > 1:
                raise SystemExit(f"bench: nobody disturbed the workflow\n{undisturbed.log.read_text()[-2000:]}")
        calm = jobs(sites)
    say(f"undisturbed: {undisturbed.took:.0f} s")
    killed: Counter[str] = Counter()
    with begun(tools, "killed", size, steps) as (sites, workflow):
        victims: list[str] = []
        while not workflow.ended(draw.uniform(0.5, 1.5) * every):
            # Of three kills each is of another kind.
            victims = victims or draw.sample(("workflow", "server", "program"), 3)
            victim = victims[-1]
            if victim == "workflow":
                workflow.process.kill()
            elif victim == "server":
                name = draw.choice(sorted(sites.servers))
                sites.servers[name].process.kill()
                time.sleep(draw.uniform(0.0, AWAY))
                sites.start_again(name)
            elif running := programs(sites.folder):
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(running), signal.SIGKILL)
            else:
                continue
            killed[victims.pop()] += 1
            say(f"{time.monotonic() - workflow.begun:.0f} s: {victim} killed")
        disturbed = jobs(sites)
    if workflow.answer != undisturbed.answer:
        raise SystemExit(f"bench: seed {seed}: another answer than undisturbed")
    done = {name: (calm[name].done, disturbed[name].done) for name in calm}
    if twice := {name: pair for name, pair in done.items() if pair[0] != pair[1]}:
        raise SystemExit(f"bench: seed {seed}: done undisturbed and disturbed: {twice}")
    return {
        "size": size, "steps": steps, "every": every, "seed": seed, "load": {"least": load, "most": machine.load()},
        "seconds": {"undisturbed": undisturbed.took, "killed": workflow.took},
        "killed": dict(killed), "starts": workflow.starts,
        "jobs": {"undisturbed": sum(one.done for one in calm.values()), "done": sum(one.done for one in disturbed.values()),
                 "lost": sum(one.lost for one in disturbed.values())},
        "lost_seconds": sum(one.lost_seconds for one in disturbed.values()),
    }  # fmt: skip


@contextmanager
def begun(tools: Any, name: str, size: str, steps: int) -> Iterator[tuple[Any, "Workflow"]]:
    """New sites, and the workflow that calls them."""
    libraries()
    from pipeproblem.sites import Sites

    with Sites(tools.binary, tools.scratch / f"{name}.sites", environment(), say) as sites:
        told = {"urls": sites.urls, "ca_file": str(sites.authority), "auth": sites.settings["auth"], "size": size, "steps": steps}
        with Workflow(tools.scratch / name, told) as workflow:
            yield sites, workflow


class Workflow:
    """A process with `grow`, started again until it ends well."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        folder.mkdir()
        (folder / "told.json").write_text(json.dumps(told))
        self.folder, self.log, self.starts = folder, folder / "log", 0
        self.begun, self.took = time.monotonic(), 0.0

    def __enter__(self) -> "Workflow":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.starts += 1
        if self.starts > MOST_STARTS:
            raise SystemExit(f"bench: the workflow did not end\n{self.log.read_text()[-2000:]}")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, __file__, "--work", self.folder], stdout=log, stderr=log)

    def ended(self, within: float) -> bool:
        """Whether it ends well within so many seconds; it is started again if it ended otherwise."""
        until = time.monotonic() + within
        try:
            while (left := until - time.monotonic()) > 0:
                if self.process.wait(left) == 0:
                    self.took = time.monotonic() - self.begun
                    return True
                self.start()
        except subprocess.TimeoutExpired:
            pass
        return False

    @property
    def answer(self) -> str:
        return (self.folder / "answer.json").read_text()


def grow(folder: Path) -> None:
    """The workflow: the crack's growth at sites that are there, and its answer, all digits."""
    libraries()
    import fishplate
    from pipeproblem.__main__ import solve
    from pipeproblem.case import SIZES, Case

    told = json.loads((folder / "told.json").read_text())
    sites = SimpleNamespace(urls=told["urls"], settings={"ca_file": told["ca_file"], "auth": tuple(told["auth"])})
    wanted = argparse.Namespace(
        size=told["size"], steps=told["steps"], volume_mesher="tetgen", solver="calculix", pressure=None, output=folder
    )
    with fishplate.Run("killed", folder / "run", retries=1, progress=False) as run:
        done = solve(run, sites, Case(size=SIZES[told["size"]]), wanted)
    steps = [
        {"front": step.front.tolist(), "intensities": step.intensities.tolist(), "following": step.following.tolist(),
         "residuals": step.load.coupled.residuals}
        for step in done
    ]  # fmt: skip
    part = folder / "answer.part"
    part.write_text(json.dumps(steps))
    part.rename(folder / "answer.json")


def jobs(sites: Any) -> dict[str, SimpleNamespace]:
    """Of each service how many jobs did their work, how many did not, and how long those ran."""
    import fishplate

    found = {}
    for name, url in sites.urls.items():
        begun = list(fishplate.Service(url, **sites.settings).jobs())
        lost = [job for job in begun if job.state != "done"]
        ran = sum((job.ended - job.started).total_seconds() for job in lost if job.started and job.ended)
        found[name] = SimpleNamespace(done=len(begun) - len(lost), lost=len(lost), lost_seconds=ran)
    return found


def programs(sites: Path) -> list[int]:
    """Processes of the sites' programs: they work in the directory of a job, and are not Fishplate's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            within = os.readlink(entry / "cwd").startswith(f"{sites}/")
            if within and Path(os.readlink(entry / "exe")).name.removesuffix(" (deleted)") != "fishplate":
                found.append(int(entry.name))
    return found


def table(found: dict[str, Any]) -> list[str]:
    """What was found, in Markdown."""
    seconds, jobs = found["seconds"], found["jobs"]
    killed = ", ".join(f"{count} of {'workflow' if name == 'workflow' else name + 's'}" for name, count in found["killed"].items())
    return [
        "| | undisturbed | killed |", "|---|---|---|",
        f"| until the end | {seconds['undisturbed']:.0f} s | {seconds['killed']:.0f} s |",
        f"| starts of the workflow | 1 | {found['starts']} |",
        f"| jobs that did their work | {jobs['undisturbed']} | {jobs['done']} |",
        f"| jobs lost | 0 | {jobs['lost']}, which had run for {found['lost_seconds']:.0f} s |", "",
        f"{sum(found['killed'].values())} kills, one each {found['every']:g} s on average: {killed} (seed {found['seed']}). The answer, "
        "fronts and stress intensities with all their digits, is that of the undisturbed one, and no step was done twice.",
    ]  # fmt: skip


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2, help="of the crack")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two kills, on average")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.work:
        grow(wanted.work)
        return
    with scratch(wanted) as tools:
        found = measure(tools, wanted.size, wanted.steps, wanted.every, wanted.seed)
    print(json.dumps(found) if wanted.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()

"""`run.py messages`: the figures of papers 001 and 002 again, every implementation in turn within each round.

A cell is one operation of so many ranks with matrices of n by n doubles; each side (an implementation, its way to carry
messages, buffers or objects, named algorithms or its own choice) has a turn in each round of it.
"""

import argparse
import contextlib
import csv
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import machine
import moldyn
import pages
import preparation
from across import across
from domain import Domain
from drivers import Failed, Network
from link import NoLink, link
from peers import BUFFERS, Peers, Side
from place import ROOT, Place
from tools import Tools

P2P = ("pingpong", "ping*pong")
SIZED = ("matrix", "broadcast", "gather", "reduce", "allreduce")
# Of doubles squared, as in the papers.
SIZES = (0, 1, 10, 23, 50, 91, 181, 362, 700, 1000, 2000)
FEW_SIZES = (1, 91, 362)
MOLDYN_SIZES = (45, 94, 166)  # about 2,048, 8,788 and 27,436 particles
# What the papers name, and the newer ones; with buffers over TCP.
ALGORITHMS = {
    "broadcast": ("broadcast=serial", "broadcast=binomial", "broadcast=scatter-allgather"),
    "gather": ("gather=serial", "gather=binomial"),
    "barrier": ("barrier=serial", "barrier=gather-broadcast", "barrier=dissemination"),
    "reduce": ("reduce=serial", "reduce=binomial"),
    "allreduce": ("allreduce=reduce-broadcast", "allreduce=recursive-doubling", "allreduce=ring",
                  "allreduce=rabenseifner"),
    # All serial, as workflows without collective operations have it, and the paper's collective ones.
    "moldyn": ("barrier=serial,allreduce=reduce-broadcast,reduce=serial,broadcast=serial",
               "barrier=gather-broadcast,allreduce=reduce-broadcast,reduce=binomial,broadcast=binomial"),
}
ALGORITHMS_OF = ("ours-tcp", BUFFERS)
PATIENCE = 60.0  # seconds for a turn
# Long enough for a scheduler to move ranks apart that it woke on one processor: some milliseconds of the shortest.
MOST_REPETITIONS = 4000


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    ranks: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8)
    rounds: int = 5
    long: int = 1000  # the n from which cells of more than 2 ranks are long ones
    rounds_of_long: int = 2
    turn: float = 0.03  # seconds of a side in a round
    longest: float = 2.0  # what takes longer is not measured again

    def cells(self, ranks: int, few: bool) -> list[tuple[str, int]]:
        """Operations and sizes at so many ranks: all sizes with 2, 4 and 8, in between some."""
        whole = ranks in (2, 4, 8) and not few
        sizes = SIZES if whole else FEW_SIZES
        cells = [("barrier", 0), *((operation, n) for operation in SIZED for n in sizes)]
        if ranks == 2:
            cells += [(operation, n) for operation in P2P for n in ((1, 23, 91, 362, 700, 2000) if few else SIZES)]
        if ranks == 4:
            cells += [("pingpong", n) for n in FEW_SIZES] + [("waiting", 0)]
        if ranks in (4, 8):
            cells += [("moldyn", n) for n in (MOLDYN_SIZES if whole else MOLDYN_SIZES[-1:])]
        return cells


@dataclass
class Cell:
    """What one side needed for an operation."""

    ranks: int
    operation: str
    n: int
    side: Side
    algorithms: str
    # Of each round: seconds of repetitions, and processor seconds of all ranks together for one.
    rounds: list[list[float]] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def least(self) -> float:
        return min(map(min, self.rounds))

    @property
    def median(self) -> float:
        return statistics.median(map(statistics.median, self.rounds))

    @property
    def cpu(self) -> float:
        return statistics.median(self.used)

    @property
    def key(self) -> tuple[int, str, int, str, str, str]:
        return self.ranks, self.operation, self.n, self.side.form, self.side.name, self.algorithms


def main(options: argparse.Namespace, tools: Tools, place: Place, results: Path) -> None:
    peers = Peers(place, ROOT / ".cache/messages")
    if not options.link:
        return write(options, peers, Network(), results)
    try:
        with link(place) as network, across(tools, peers, network) as ends:
            write(options, ends, network, results)
    except NoLink as problem:
        print(f"  there is no link, only loopback here: {problem}", flush=True)


def plan(options: argparse.Namespace) -> Plan:
    """Across the link an operation takes its round trips, and fewer tell as much."""
    if options.link:
        return Plan(ranks=(2, 4), rounds=2 if options.quick else 3, turn=0.1, longest=1.0 if options.quick else 5.0)
    return Plan(ranks=(2, 4), rounds=2, turn=0.01, longest=0.5) if options.quick else Plan()


def write(options: argparse.Namespace, peers: Peers, network: Network, results: Path) -> None:
    load, do, place = machine.load(), plan(options), peers.place
    sides = [side for side in peers.sides() if not options.only or side.name in options.only]
    left_out: dict[str, str] = {}
    cells: list[Cell] = []
    for ranks in options.ranks or do.ranks:
        print(f"  {ranks} ranks ... (load {machine.load():.2f})", flush=True)
        cells += measure(sides, ranks, 2 if options.link else 1, do, do.cells(ranks, options.quick or options.link), left_out)
    cells = [cell for cell in cells if cell.rounds]
    whole = not (options.quick or options.only or options.ranks)
    # Quick or partial figures do not replace whole ones.
    directory = results if whole else place.built / "results"
    directory.mkdir(parents=True, exist_ok=True)
    base = directory / f"messages-{network.name}"
    about = machine.describe()

    def write_page(runs: list[dict]) -> None:
        told = (f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, Linux {about['kernel']}; "
                f"{about['date']}, {about['commit']}; `{command(options)}`; load {load:.2f} to {machine.load():.2f}; "
                f"{network.told}.")
        base.with_suffix(".md").write_text(pages.page(network.name, told, cells, moldyn.table(runs), left_out))

    # What is measured is kept, whatever becomes of MolDyn.
    write_csv(base.with_suffix(".csv"), network.name, cells)
    write_page([])
    if not (options.link or options.only):
        rounds, sizes, ranks_of_moldyn = (1, (8,), (4,)) if options.quick else (3, (8, 13), (1, 2, 4))
        write_page(moldyn.measure(peers, rounds, sizes, ranks_of_moldyn, left_out))
    place.plot(Path(__file__).parent / "messages_plot.py", base.with_suffix(".csv"))
    print(pages.standing(cells))
    print(f"written to {base.relative_to(ROOT)}.md, .csv and .svg")


def command(options: argparse.Namespace) -> str:
    words = ["benches/run.py messages", "--link" if options.link else "", "--quick" if options.quick else "",
             "--pgo" if options.pgo else "",
             f"--only {','.join(options.only)}" if options.only else "",
             f"--ranks {','.join(map(str, options.ranks))}" if options.ranks else ""]
    return " ".join(filter(None, words))


def measure(sides: list[Side], ranks: int, hosts: int, plan: Plan, wanted: list[tuple[str, int]],
            left_out: dict[str, str]) -> list[Cell]:
    cells: list[Cell] = []
    domains: dict[Side, Domain] = {}
    try:
        for operation, n in wanted:
            for side in [side for side in sides if side.takes(operation, ranks) and side not in domains]:
                start(side, ranks, hosts, domains, left_out)
            cell = [Cell(ranks, operation, n, side, algorithms) for side in domains if side.takes(operation, ranks)
                    for algorithms in algorithms_of(side, operation)]
            take_turns(cell, domains, plan)
            cells += cell
            for one in filter(lambda one: one.problem, cell):
                left_out[f"{one.side.title}, {one.side.form}, {ranks} ranks, {operation}, n = {n}"] = one.problem
    finally:
        for domain in domains.values():
            domain.close()
        with contextlib.ExitStack() as stack:
            for domain in domains.values():
                stack.callback(domain.end)
    return cells


def start(side: Side, ranks: int, hosts: int, domains: dict[Side, Domain], left_out: dict[str, str]) -> None:
    """Starts its ranks, again if they ended; not if they could not be started before."""
    name = f"{side.title}, {side.form}, {ranks} ranks"
    if name not in left_out:
        try:
            domains[side] = Domain(side, ranks, hosts)
        except (Failed, preparation.PreparationFailed, subprocess.SubprocessError, OSError) as problem:
            left_out[name] = str(problem)


def algorithms_of(side: Side, operation: str) -> tuple[str, ...]:
    named = ALGORITHMS.get(operation, ()) if (side.name, side.form) == ALGORITHMS_OF else ()
    return "", *named


def take_turns(cells: list[Cell], domains: dict[Side, Domain], plan: Plan) -> None:
    """Compares numbers once, finds out how many repetitions make a turn, then measures round by round."""
    repetitions: dict[int, int] = {}

    def ask(cell: Cell, count: int) -> list[float]:
        """Who fails has no more turns in this cell."""
        if cell.problem or cell.side not in domains:
            return []
        try:
            return domains[cell.side].ask(cell.operation, cell.algorithms or cell.side.word, cell.n, count, PATIENCE)
        except Failed as problem:
            cell.problem = str(problem)
            domains[cell.side].end()
            del domains[cell.side]
            return []

    for at, cell in enumerate(cells):
        ask(cell, 0)
        once = min(ask(cell, 3 if cell.n < 1000 else 1), default=0.0)
        if once > plan.longest:
            cell.problem = f"a repetition takes {once:.1f} s"
        elif once:
            repetitions[at] = max(1, min(MOST_REPETITIONS, int(plan.turn / once)))
    is_long = cells and cells[0].n >= plan.long and cells[0].ranks > 2
    for _ in range(min(plan.rounds, plan.rounds_of_long) if is_long else plan.rounds):
        for at, count in repetitions.items():
            cell = cells[at]
            used = domains[cell.side].used() if cell.side in domains else 0.0
            if seconds := ask(cell, count):
                cell.rounds.append(seconds)
                # The one that wakes everybody is in it.
                cell.used.append((domains[cell.side].used() - used) / (count + 1))


def write_csv(path: Path, network: str, cells: list[Cell]) -> None:
    with open(path, "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["network", "ranks", "operation", "n", "form", "side", "algorithms", "round", "least_seconds",
                       "median_seconds", "processor_seconds"])
        for cell in cells:
            head = [network, cell.ranks, cell.operation, cell.n, cell.side.form, cell.side.name, cell.algorithms]
            for at, (seconds, used) in enumerate(zip(cell.rounds, cell.used, strict=True)):
                rows.writerow([*head, at, f"{min(seconds):.9f}", f"{statistics.median(seconds):.9f}", f"{used:.9f}"])
            rows.writerow([*head, "all", f"{cell.least:.9f}", f"{cell.median:.9f}", f"{cell.cpu:.9f}"])

"""Round trips of every stack, taken in turns; bytes on the wire; time in parsing.

All stacks take turns within each round, because the speed of a machine changes within seconds. A cell
is one operation of one stack at one size.
"""

import statistics
import time
from dataclasses import dataclass, field

import preparation
from drivers import Failed, Floor, Network
from place import Place
from relay import Relay
from stacks import OPERATIONS, Stack

TOO_LONG = "a call would take more than"
SIZES = (10, 50, 100, 500, 1000, 4000)


@dataclass(frozen=True)
class Plan:
    """How long to measure."""

    sizes: tuple[int, ...] = SIZES
    rounds: int = 6
    cell: float = 0.3  # seconds of a cell, over all rounds
    least: int = 3  # calls of a cell, however long they take
    longest: float = 60.0  # seconds that a call may take; what would take more is not measured
    hung: float = 300.0  # seconds after which a client is given up


@dataclass
class Cell:
    stack: Stack
    operation: str
    n: int
    rounds: list[list[float]] = field(default_factory=list)  # seconds of each call
    bytes_out: int | None = None
    bytes_back: int | None = None
    not_measured: str = ""  # why

    @property
    def seconds(self) -> list[float]:
        return [call for calls in self.rounds for call in calls]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)


def prepare(stacks: list[Stack], place: Place) -> tuple[list[Stack], dict[str, str]]:
    """Those that can take part, and why the others can't."""
    out = {stack.name: why for stack in stacks if (why := stack.absent(place))}
    present = [stack for stack in stacks if stack.name not in out]
    preparation.install_packages({package for stack in present for package in stack.packages()})
    for stack in present:
        try:
            stack.prepare(place)
        except preparation.PreparationFailed as problem:
            out[stack.name] = str(problem).splitlines()[0]
            print(f"  {stack.name} is left out: {problem}", flush=True)
    return [stack for stack in present if stack.name not in out], out


def measure(stacks: list[Stack], place: Place, network: Network, plan: Plan) -> list[Cell]:
    cells: list[Cell] = []
    with Floor(place, network) as floor:
        for n in plan.sizes:
            for operation in OPERATIONS:
                if operation == "parse" and network.name != "loopback":
                    continue  # nothing of it goes over the network
                row = [Cell(stack, operation, n) for stack in stacks if operation in stack.operations]
                begin = time.monotonic()
                Row(floor, plan, row, cells).measure()
                cells += row
                print(f"  {network.name}: {operation} of {n} x {n}: {time.monotonic() - begin:.0f} s",
                      flush=True)
    return cells


class Row:
    """The cells of one operation and size: one a stack."""

    def __init__(self, floor: Floor, plan: Plan, cells: list[Cell], earlier: list[Cell]) -> None:
        self.floor, self.plan, self.cells, self.earlier = floor, plan, cells, earlier
        self.estimate: dict[str, float] = {}  # seconds a call, by stack

    def measure(self) -> None:
        for cell in self.cells:
            self.attempt(cell, self.begin)
        for turn in range(self.plan.rounds):
            # Another one begins each time, so that nobody always follows the same neighbour.
            for at in range(len(self.cells)):
                cell = self.cells[(at + turn) % len(self.cells)]
                if not cell.not_measured and not self.enough(cell):
                    self.attempt(cell, self.turn)

    def attempt(self, cell: Cell, step) -> None:
        try:
            step(cell)
        except Failed as problem:
            cell.not_measured = f"failed: {problem}"
            print(f"  {cell.stack.name}: {cell.operation} of {cell.n} x {cell.n} failed: {problem}",
                  flush=True)

    def begin(self, cell: Cell) -> None:
        """Whether the answer is right, the bytes that go over the wire, and how long a call takes."""
        predicted = self.predict(cell)
        if predicted > self.plan.longest:
            cell.not_measured = f"{TOO_LONG} {self.plan.longest:.0f} s"
            return
        url = self.floor.url(cell.stack)
        if self.floor.network.name == "loopback" and cell.operation != "parse":
            with Relay(url) as relay:
                # A client may fetch the WSDL first, which is none of the call's bytes.
                self.floor.ask(cell.stack, relay.url, "getMatrix", 1, 0, self.plan.hung)
                out, back = relay.out, relay.back
                self.ask(cell, relay.url, 0)
                cell.bytes_out, cell.bytes_back = relay.out - out, relay.back - back
        else:
            self.ask(cell, url, 0)
        # A long call needs no warmth, and would take it from the other measurements.
        first = not any(earlier.stack is cell.stack for earlier in self.earlier)
        warm = cell.stack.warm if first else cell.stack.warm / 4
        taken = self.ask(cell, url, 1) if predicted < 1 else [predicted]
        while sum(taken) < warm and predicted < 1:
            taken = [*taken, *self.ask(cell, url, max(1, min(500, int(warm / 4 / taken[-1]))))]
        self.estimate[cell.stack.name] = statistics.median(taken)

    def predict(self, cell: Cell) -> float:
        """Seconds of a call: what the smallest takes, and a share that grows with the count of numbers."""
        before = [earlier for earlier in self.earlier
                  if earlier.stack is cell.stack and earlier.operation == cell.operation]
        if not before:
            return 0.0
        last = before[-1]
        if last.not_measured:
            return self.plan.longest + 1 if TOO_LONG in last.not_measured else 0.0
        return before[0].median + (last.median - before[0].median) * (cell.n / last.n) ** 2

    def enough(self, cell: Cell) -> bool:
        """Where calls are long, the least count of them does."""
        done = cell.seconds
        return len(done) >= self.plan.least and sum(done) >= self.plan.cell

    def turn(self, cell: Cell) -> None:
        share = self.plan.cell / self.plan.rounds
        calls = int(share / self.estimate[cell.stack.name])
        least = -(-self.plan.least // self.plan.rounds)
        cell.rounds.append(self.ask(cell, self.floor.url(cell.stack), max(least, min(calls, 5000))))

    def ask(self, cell: Cell, url: str, repetitions: int) -> list[float]:
        return self.floor.ask(cell.stack, url, cell.operation, cell.n, repetitions, self.plan.hung)

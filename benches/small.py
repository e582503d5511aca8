"""Calls a second of a tiny call from 40 clients: SOAP servers against bare hyper with the same bytes."""

import statistics
from dataclasses import dataclass

import machine
import measure
from drivers import Floor, Network
from overhead import spread
from place import Place
from server import envelope
from stacks import STACKS
from throughput import CLIENTS, SCRIPT, wrk
from tools import found

NUMBERS = "<t:x>1</t:x><t:y>2</t:y>"


@dataclass
class Side:
    """Who answers, and the call that it knows: two numbers are added."""

    title: str
    body: bytes
    path: str = ""


# Bare hyper sends back what it was sent.
BARE = "http-whole"
SIDES = {
    BARE: Side("bare hyper", envelope("bench:matrix", "add", NUMBERS)),
    "gsoap-xml": Side("gSOAP", envelope("bench:matrix", "add", NUMBERS)),
    "fishplate-xml": Side("Fishplate", envelope("matrix", "add", NUMBERS)),
}


def run(place: Place, rounds: int, seconds: int) -> dict:
    """Slices of each in turn; the load generator shares the cores."""
    program = found("wrk", "wrk")
    stacks, left_out = measure.prepare([stack for stack in STACKS if stack.name in SIDES], place)
    rows: list[dict] = []
    with Floor(place, Network()) as floor:
        def load(stack, seconds: int) -> dict:
            side, url = SIDES[stack.name], floor.url(stack)
            script, pid = place.scratch / f"{stack.name}.lua", floor.server_pid(stack)
            script.write_text(SCRIPT.format(body=side.body.decode()))
            used = machine.used([pid])
            count, elapsed, _ = wrk(program, url + side.path, script, seconds)
            return {"a_second": count / elapsed, "load": round(machine.load(), 2),
                    "cpu_microseconds": (machine.used([pid]) - used) / count * 1e6}

        for stack in stacks:
            load(stack, 1)
        rows = [{stack.name: load(stack, seconds) for stack in stacks} for _ in range(rounds)]
    return {"clients": CLIENTS, "left_out": left_out, "rounds": rows,
            "loads": spread([row["load"] for turn in rows for row in turn.values()]),
            "sides": {SIDES[stack.name].title: figures(stack.name, rows) for stack in stacks}}


def figures(name: str, rows: list[dict]) -> dict:
    median = {value: statistics.median(row[name][value] for row in rows)
              for value in ("a_second", "cpu_microseconds")}
    return {**median, "rates": spread([row[name]["a_second"] for row in rows]),
            "ratio_to_bare": spread([row[name]["a_second"] / row[BARE]["a_second"] for row in rows])}

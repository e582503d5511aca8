"""Calls a second of a tiny call from 40 clients: servers against bare hyper with the same bytes."""

import statistics
import urllib.parse
from dataclasses import dataclass, field

import machine
import measure
from drivers import Floor, Network
from overhead import spread
from place import Place
from server import SOAP, envelope
from stacks import STACKS
from throughput import CLIENTS, post_script, wrk
from tools import found

NUMBERS = "<t:x>1</t:x><t:y>2</t:y>"


@dataclass
class Side:
    """Who answers, and the call that it knows: two numbers are added."""

    title: str
    stack: str
    body: bytes
    path: str = ""
    headers: dict[str, str] = field(default_factory=lambda: SOAP)
    bare: str = "bare hyper"
    """The side that it is compared with."""


# Bare hyper sends back what it was sent.
BARE = "http-whole"
SIDES = [
    Side("bare hyper", BARE, envelope("bench:matrix", "add", NUMBERS)),
    Side("gSOAP", "gsoap-xml", envelope("bench:matrix", "add", NUMBERS)),
    Side("Fishplate", "fishplate-xml", envelope("matrix", "add", NUMBERS)),
]


def run(place: Place, rounds: int, seconds: int, sides: list[Side] = SIDES) -> dict:
    """Slices of each in turn; the load generator shares the cores."""
    program = found("wrk", "wrk")
    wanted = {side.stack for side in sides}
    stacks, left_out = measure.prepare([stack for stack in STACKS if stack.name in wanted], place)
    of_name = {stack.name: stack for stack in stacks}
    sides = [side for side in sides if side.stack in of_name]
    rows: list[dict] = []
    with Floor(place, Network()) as floor:
        def load(side: Side, seconds: int) -> dict:
            stack = of_name[side.stack]
            url, pid = urllib.parse.urljoin(floor.url(stack), side.path), floor.server_pid(stack)
            script = place.scratch / "small.lua"
            script.write_text(post_script(side.body.decode(), side.headers))
            used = machine.used([pid])
            count, elapsed, _ = wrk(program, url, script, seconds)
            return {"a_second": count / elapsed, "load": round(machine.load(), 2),
                    "cpu_microseconds": (machine.used([pid]) - used) / count * 1e6}

        for side in sides:
            load(side, 1)
        rows = [{side.title: load(side, seconds) for side in sides} for _ in range(rounds)]
    return {"clients": CLIENTS, "left_out": left_out, "rounds": rows,
            "loads": spread([row["load"] for turn in rows for row in turn.values()]),
            "sides": {side.title: figures(side, rows) for side in sides}}


def figures(side: Side, rows: list[dict]) -> dict:
    name = side.title
    median = {value: statistics.median(row[name][value] for row in rows)
              for value in ("a_second", "cpu_microseconds")}
    return {**median, "rates": spread([row[name]["a_second"] for row in rows]),
            "ratio_to_bare": spread([row[name]["a_second"] / row[side.bare]["a_second"] for row in rows])}

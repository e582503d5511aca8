"""The report of a run: one HTML file, which needs nothing else."""

from __future__ import annotations

import math
import mimetypes
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from . import _stored
from ._flow import within
from ._journal import Attempt, Contents
from ._progress import counted, human
from .errors import Error, Timeout, Unreachable

if TYPE_CHECKING:
    from ._run import Run

ANSWER = 10.0
"""Seconds within which a server answers; then it is not asked any more."""

ASKED_AT_ONCE = 8
"""Servers' answers that are waited for at once."""

WIDTH, LANE, LEFT = 1000, 26, 180
"""Of the timeline: its width, the height of a component's lane, the room for its name; in pixels."""

CURVE = (460, 200)
"""Width and height of a curve of convergence, in pixels."""

DRAWN = """
p.what { color: #5a6572; margin-top: .2em }
svg text { font: 12px system-ui, sans-serif; fill: #39424d }
.wait { fill: #b9cbe4 } .work { fill: #2f6fb7 } .failed { fill: #c8452f } .axis { stroke: #c6ced7 }
.curve { fill: none; stroke: #2f6fb7; stroke-width: 1.5 } .dot { fill: #2f6fb7 }
figure { display: inline-block; margin: 0 1em 1em 0 } figure img { max-width: 100% }
"""
"""The style of what is drawn, here and in a notebook."""

STYLE = DRAWN + """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1040px; margin: 2em auto; padding: 0 1em; color: #1d232b }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.15em; margin: 2em 0 .5em }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3em .6em; border-bottom: 1px solid #dde2e8; text-align: left; vertical-align: top }
td.n, th.n { text-align: right } tr.sum td { font-weight: 600 }
pre { background: #f4f6f8; padding: .6em; overflow-x: auto; margin: .3em 0 }
"""


def ask_used(run: Run) -> None:
    """Notes of each job that ended what its server tells: when its program ran, what it used, what was transferred. A
    job that is not there any more has nothing to tell."""
    contents, services = run._journal.contents, {}
    asked = [
        attempt
        for attempts in contents.attempts.values()
        for attempt in attempts
        if attempt.job is not None and attempt.used is None and attempt.ended is not None
    ]
    for url in {attempt.url for attempt in asked}:
        try:
            services[url] = within(ANSWER, run._endpoint(url).asked())
        except (Error, OSError):
            continue

    def ask(attempt: Attempt) -> dict[str, Any] | None:
        if attempt.url not in services:
            return None
        try:
            told = within(ANSWER, services[attempt.url].status(attempt.job or ""))
        except (Timeout, Unreachable):
            services.pop(attempt.url, None)
            return None
        except (Error, OSError):
            return None
        names = ("started", "ended", "cpu_seconds", "max_memory", "transfers")
        return {name: told[name] for name in names}

    known = [attempt for attempt in asked if attempt.url in services]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        for attempt, used in zip(known, pool.map(ask, known), strict=True):
            if used is not None:
                run._journal.append("used", place=attempt.place, attempt=attempt.number, used=used)


@dataclass
class Component:
    """What a service did in a run; times in seconds."""

    calls: int = 0
    failed: int = 0
    through: float = 0.0
    """From the call to its answer, without what it waited for a slot of our own."""
    directly: float = 0.0
    """Of that, while the programs ran."""
    cpu: float = 0.0
    told: int = 0
    """Calls whose server told when their program ran."""

    def add(self, attempt: Attempt) -> None:
        self.calls += 1
        self.failed += attempt.fault is not None
        taken, program = (attempt.ended or attempt.begun) - attempt.begun, program_time(attempt)
        if program is not None:
            self.told += 1
        # A job that was there already cost this run nothing.
        if program is not None and not attempt.found:
            self.through += taken
            self.directly += program
            self.cpu += (attempt.used or {}).get("cpu_seconds") or 0.0


def program_time(attempt: Attempt) -> float | None:
    """Seconds for which its program ran, if its server told."""
    used = attempt.used or {}
    if used.get("started") is None or used.get("ended") is None:
        return None
    return float(used["ended"] - used["started"])


@dataclass
class Edge:
    """Data that went from one component to another."""

    files: int = 0
    bytes: int = 0
    """From one server to another; what was there before does not count."""
    placed: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def edges(contents: Contents) -> dict[tuple[str, str], Edge]:
    """What went by reference, by who made it and who took it."""
    makers: dict[str, str] = {}
    for attempts in contents.attempts.values():
        for _, _, value in attempts[-1].outputs or ():
            data = value.get("data", value) if isinstance(value, dict) else {}
            for known in (data.get("url"), data.get("digest")):
                if known:
                    makers[known] = attempts[-1].call
    found: dict[tuple[str, str], Edge] = defaultdict(Edge)
    for attempts in contents.attempts.values():
        for attempt in attempts:
            referred = {name: value for name, _, value in attempt.inputs if isinstance(value, dict)}
            for transfer in (attempt.used or {}).get("transfers", ()):
                value = referred.get(transfer["parameter"])
                if value is None:
                    continue
                data = value.get("data", value)
                maker = makers.get(data.get("reference", ""), transfer["peer"])
                edge = found[maker, attempt.call]
                edge.files += 1
                is_same = urlsplit(transfer["peer"]).netloc == urlsplit(attempt.url).netloc
                # Journals of earlier versions do not tell.
                is_there = is_same or transfer.get("cached", False)
                edge.bytes += 0 if is_there else transfer["bytes"]
                edge.placed["on the same server" if is_same else "there before" if is_there else "fetched"] += 1
    return found


def page(directory: Path, contents: Contents) -> str:
    """The report as HTML."""
    attempts = [attempt for tried in contents.attempts.values() for attempt in tried]
    begun = min((attempt.begun for attempt in attempts), default=time.time())
    ended = max((attempt.ended or attempt.begun for attempt in attempts), default=begun)
    what = (f"{counted(len(contents.attempts), 'step')}, {counted(len(attempts), 'call')}, {_seconds(ended - begun)} from "
            f"{_moment(begun)} to {_moment(ended)}; the workflow was started {counted(len(contents.processes), 'time')}")
    sent, received = (sum(process.get(way, 0) for process in contents.processes) for way in ("sent", "received"))
    # The last one goes on, or has told all.
    is_killed = any("at" not in process for process in contents.processes[:-1])
    killed = ", up to the last step that ended where it was killed" if is_killed else ""
    parts = [
        f"<h1>{escape(contents.name)}</h1><p class='what'>{escape(what)}</p>",
        "<h2>Who worked when</h2>",
        _timeline(attempts, begun, ended),
        "<h2>Components</h2>",
        _components(attempts),
        "<h2>Data, from component to component</h2>",
        _edges(contents),
        f"<p>Through the workflow's own process{killed}: {human(sent)} sent, {human(received)} received.</p>",
    ]
    if contents.measures:
        parts += ["<h2>Convergence</h2>", _curves(contents)]
    if contents.pictures:
        parts += ["<h2>Pictures</h2>", *(image(directory / name, caption) for caption, name in contents.pictures)]
    failed = [attempt for attempt in attempts if attempt.fault is not None]
    if failed:
        parts += ["<h2>What failed</h2>", *map(_failure, failed)]
    head = f"<meta charset='utf-8'><title>{escape(contents.name)}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def drawn(contents: Contents, line: str) -> str:
    """A run that goes on, for a notebook: what stands on a terminal's line, who works, and how it converges."""
    attempts = [attempt for tried in list(contents.attempts.values()) for attempt in list(tried)]
    parts = [f"<style>.fishplate-run {{ background: #fff; color: #1d232b; padding: .5em; {DRAWN} figure svg {{ width: 280px; height: auto }} }}</style><p>{escape(line)}</p>"]
    if attempts:
        # Of a run that was taken up again, what it does now.
        begun = max(min(attempt.begun for attempt in attempts), contents.processes[-1]["begun"] if contents.processes else 0.0)
        parts.append(_timeline([one for one in attempts if (one.ended or math.inf) >= begun], begun, time.time()))
    return f"<div class='fishplate-run'>{''.join(parts)}{_curves(contents)}</div>"


def _timeline(attempts: Sequence[Attempt], begun: float, ended: float) -> str:
    lanes = list(dict.fromkeys((attempt.call, urlsplit(attempt.url).netloc) for attempt in attempts))
    length = max(ended - begun, 1e-3)
    scale = (WIDTH - LEFT - 10) / length
    drawn = []
    height = len(lanes) * LANE + 30
    for share in range(6):
        x = LEFT + share / 5 * length * scale
        drawn.append(f"<line class='axis' x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height - 24}'/>")
        drawn.append(f"<text x='{x:.1f}' y='{height - 8}' text-anchor='middle'>{_seconds(share / 5 * length)}</text>")
    for number, (call, server) in enumerate(lanes):
        y, last = number * LANE + 4, -1.0
        # Of one component on several servers each has a lane.
        name = call if [of for of, _ in lanes].count(call) == 1 else f"{call} at {server}"
        drawn.append(f"<text x='0' y='{y + 14}'>{escape(name)}<title>{escape(server)}</title></text>")
        for attempt in attempts:
            if (attempt.call, urlsplit(attempt.url).netloc) != (call, server) or (attempt.ended is None and not attempt.is_open):
                continue
            until = attempt.ended or ended
            x, end = LEFT + max(attempt.begun - begun, 0.0) * scale, LEFT + (until - begun) * scale
            if end - last < 0.5 and attempt.fault is None:
                continue  # Nobody could tell it from the one before.
            last = end
            kind = "failed" if attempt.fault is not None else "wait"
            took = _seconds(until - attempt.begun) + ("" if attempt.ended else " until now")
            told = f"{attempt.place}: {_stored.shown(attempt.call, attempt.inputs)}, {took}"
            drawn.append(_bar(kind, x, y, end - x, f"<title>{escape(told)}</title>"))
            program = program_time(attempt)
            if program is not None and attempt.fault is None:
                # The end is the same; how long it ran was told by another clock.
                drawn.append(_bar("work", max(x, end - program * scale), y, min(program * scale, end - x), ""))
    key = "<p class='what'>dark: its program ran; light: called; red: failed</p>"
    return f"<svg viewBox='0 0 {WIDTH + 20} {height}' width='100%'>{''.join(drawn)}</svg>{key}"


def _bar(kind: str, x: float, y: int, width: float, title: str) -> str:
    return f"<rect class='{kind}' x='{x:.1f}' y='{y}' width='{max(width, 0.7):.1f}' height='{LANE - 8}'>{title}</rect>"


def _components(attempts: Iterable[Attempt]) -> str:
    found: dict[tuple[str, str], Component] = defaultdict(Component)
    total = Component()
    for attempt in attempts:
        if attempt.ended is not None and not attempt.cancelled:
            for one in (found[attempt.call, urlsplit(attempt.url).netloc], total):
                one.add(attempt)
    head = ("component", "server", "calls", "failed", "directly", "through services", "overhead", "", "processor")
    rows = [_component_row(call, server, one) for (call, server), one in found.items()]
    untold = total.calls - total.told
    note = f"<p class='what'>Of {untold} calls the servers told no times any more.</p>" if untold else ""
    return _table(head, [*rows, _component_row("all", "", total)], numbers=2, sums=True) + note


def _component_row(call: str, server: str, one: Component) -> list[str]:
    counted = [call, server, str(one.calls), str(one.failed or "")]
    if not one.told:
        return [*counted, "", "", "", "", ""]
    over = one.through - one.directly
    share = f"{over / one.directly:.1%}" if one.directly > 0 else ""
    return [*counted, _seconds(one.directly), _seconds(one.through), _seconds(over), share, _seconds(one.cpu)]


def _edges(contents: Contents) -> str:
    found = edges(contents)
    if not found:
        return "<p>None went by reference, or the servers tell of none any more.</p>"
    rows = [
        [maker, taker, str(edge.files), human(edge.bytes), ", ".join(f"{count} {how}" for how, count in edge.placed.items())]
        for (maker, taker), edge in found.items()
    ]
    return _table(("from", "to", "files", "bytes moved", ""), rows, numbers=2)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int, sums: bool = False) -> str:
    """A table, whose columns from that number on are numbers, and whose last row may be the sum."""
    listed = list(rows)
    classes = ["" if number < numbers else " class='n'" for number in range(len(head))]
    cells = ["".join(f"<th{c}>{escape(text)}</th>" for c, text in zip(classes, head, strict=True))]
    cells += ["".join(f"<td{c}>{escape(text)}</td>" for c, text in zip(classes, row, strict=True)) for row in listed]
    last = " class='sum'" if sums else ""
    lines = [f"<tr{last if at == len(listed) else ''}>{row}</tr>" for at, row in enumerate(cells)]
    return f"<table>{''.join(lines)}</table>"


def _curves(contents: Contents) -> str:
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    for measure in list(contents.measures.values()):
        series[measure.branch, measure.name].append(measure.value)
    return "".join(_curve(f"{branch}/{name}" if branch else name, values) for (branch, name), values in series.items())


def _curve(name: str, values: Sequence[float]) -> str:
    """A measure by its number; its logarithm, if all are above 0 and they differ tenfold."""
    width, height = CURVE
    is_log = min(values) > 0 and max(values) >= 10 * min(values)
    levels = [math.log10(value) if is_log else value for value in values]
    finite = [level for level in levels if math.isfinite(level)] or [0.0]
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    across = (width - 90) / max(len(values) - 1, 1)
    points = [
        (70 + at * across, 15 + (high - level) / span * (height - 45))
        for at, level in enumerate(levels)
        if math.isfinite(level)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f"<circle class='dot' cx='{x:.1f}' cy='{y:.1f}' r='2'/>" for x, y in points) if len(points) <= 200 else ""
    ends = [(high, 15), (low, height - 30)]
    marks = "".join(
        f"<text x='62' y='{y + 4}' text-anchor='end'>{(10**level if is_log else level):.3g}</text>" for level, y in ends
    )
    foot = f"<text x='{width / 2}' y='{height - 6}' text-anchor='middle'>{len(values)} values, last {values[-1]:.4g}</text>"
    caption = escape(name) + (" (logarithmic)" if is_log else "")
    drawing = f"<polyline class='curve' points='{line}'/>{dots}{marks}{foot}"
    svg = f"<svg viewBox='0 0 {width} {height}' width='{width}'>{drawing}</svg>"
    return f"<figure><figcaption>{caption}</figcaption>{svg}</figure>"


def image(path: Path, caption: str) -> str:
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    data = b64encode(path.read_bytes()).decode()
    text = escape(caption)
    return f"<figure><img src='data:{kind};base64,{data}' alt='{text}'><figcaption>{text}</figcaption></figure>"


def _failure(attempt: Attempt) -> str:
    fault = attempt.fault or {}
    called = _stored.shown(attempt.call, attempt.inputs)
    told = f"step {attempt.place}, attempt {attempt.number + 1}, {attempt.where}: {called}"
    parts = (f"{fault.get('code')}: {fault.get('message')}", fault.get("stderr"), attempt.log)
    text = "\n".join(part for part in parts if part)
    return f"<p>{escape(told)}<br>{escape(attempt.url)}, job {attempt.job}</p><pre>{escape(text)}</pre>"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds / 60:.0f} min"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))

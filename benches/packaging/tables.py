"""The tables of the paper, and of what it left out: Markdown, and CSV with every round."""

import csv
import io
import statistics

from measure import Cell

LIMIT = "http-whole"
EVEN = 1.03  # who is nearer than that has not won

# Paper 003 (Ying, Huang, Walker 2004): Axis 1.1, JDK 1.4.2, Tomcat 5.0, Pentium III 900 MHz, loopback.
PAPER = {
    "milliseconds": {
        "the paper's Axis 1.1 XML": {10: 399.1, 50: 6782.3, 100: 25802.6},
        "the paper's Axis 1.1 MIME": {10: 635.9, 50: 1398, 100: 3905.5, 500: 85542, 1000: 356418},
        "the paper's Axis 1.1 DIME": {10: 296.1, 50: 908.5, 100: 3386.4, 500: 84225, 1000: 347415},
    },
    "bytes": {
        "the paper's Axis 1.1 XML": {10: 4250, 50: 75212, 100: 292867},
        "the paper's Axis 1.1 MIME": {10: 1813, 50: 11810, 100: 42314, 500: 1006312, 1000: 4011316},
        "the paper's Axis 1.1 DIME": {10: 1497, 50: 11498, 100: 41998, 500: 1006000, 1000: 4011000},
    },
}


def csv_text(network: str, cells: list[Cell]) -> str:
    """A row a round, and one for `all` of a cell."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("network", "operation", "n", "stack", "round", "calls", "median_seconds",
                   "least_seconds", "bytes_out", "bytes_back", "not_measured"))
    for cell in cells:
        about = (network, cell.operation, cell.n, cell.stack.name)
        count = (cell.bytes_out, cell.bytes_back)
        if cell.not_measured:
            rows.writerow((*about, "all", 0, "", "", *count, cell.not_measured))
            continue
        for number, calls in [*enumerate(cell.rounds, 1), ("all", cell.seconds)]:
            rows.writerow((*about, number, len(calls), f"{statistics.median(calls):.9f}",
                           f"{min(calls):.9f}", *count, ""))
    return out.getvalue()


def markdown(cells: list[Cell], loopback: bool) -> str:
    """The paper's tables; the second and third do not depend on the network."""
    sizes = sorted({cell.n for cell in cells})
    parts = [
        *times("Table 1. Round trip of `echo`: the matrix in the request and in the answer",
               cells, "echo", sizes, PAPER["milliseconds"] if loopback else {}),
        *times("Table 1b. Round trip of `getMatrix`: the matrix in the answer only",
               cells, "getMatrix", sizes, {}),
    ]
    if loopback:
        parts += bytes_on_the_wire(cells, sizes)
        parts += times("Table 3. Parsing: the client decodes an answer to `getMatrix` from memory",
                       cells, "parse", sizes, {})
    parts += footnotes(cells)
    return "\n".join(parts)


def times(title: str, cells: list[Cell], operation: str, sizes: list[int], paper: dict) -> list[str]:
    lines = ["", f"### {title}", "", "Milliseconds: median, and the least in brackets.", "",
             *header(sizes)]
    for title, found in by_stack(cells, operation).items():
        lines.append(row(title, [timed(found.get(n)) for n in sizes]))
    for name, figures in paper.items():
        lines.append(row(f"*{name}, 2004*", [f"*{figures[n]:g}*" if n in figures else "" for n in sizes]))
    return lines


def bytes_on_the_wire(cells: list[Cell], sizes: list[int]) -> list[str]:
    lines = ["", "### Table 2. Bytes on the wire of `echo`: request, answer", "",
             "Counted between client and server, with the heads of HTTP and without those of packets.", "",
             *header(sizes)]
    for title, found in by_stack(cells, "echo").items():
        lines.append(row(title, [counted(found.get(n)) for n in sizes]))
    for name, figures in PAPER["bytes"].items():
        lines.append(row(f"*{name}, 2004*", [f"*{figures[n]:,}*" if n in figures else "" for n in sizes]))
    return lines


def footnotes(cells: list[Cell]) -> list[str]:
    """Why a cell is empty: nothing is invented."""
    lines = [f"- {cell.stack.title}, `{cell.operation}`, n = {cell.n}: not measured; {cell.not_measured}"
             for cell in cells if cell.not_measured]
    return ["", "Not measured:", "", *lines] if lines else []


def standing(cells: list[Cell]) -> list[str]:
    """Where we stand: against the best peer with the same packaging, and against the limit."""
    ours = [cell for cell in cells if is_ours(cell) and cell.rounds and cell.operation != "parse"]
    if not ours:
        return []
    sizes = sorted({cell.n for cell in cells})
    faster, share, lost = {}, {}, []
    for cell in ours:
        name = f"{cell.stack.title}, `{cell.operation}`"
        limit = other(cells, cell, LIMIT)
        if limit and cell.operation == "echo":
            share.setdefault(name, {})[cell.n] = f"{limit.median / cell.median:.2f}"
        peers = [peer for peer in others(cells, cell) if peer.stack.packaging == cell.stack.packaging]
        if not peers:
            continue
        best = min(peers, key=lambda peer: peer.median)
        faster.setdefault(name, {})[cell.n] = f"{best.median / cell.median:.2f}"
        lost += [f"- {name}, n = {cell.n}: {milliseconds(cell.median)} ms, {peer.stack.title} "
                 f"{milliseconds(peer.median)} ms ({cell.median / peer.median:.2f} times as long)"
                 for peer in peers if peer.median * EVEN < cell.median]
    return ["", "### How many times as fast as the best peer with the same packaging", "",
            *table(faster, sizes), "", f"Cells that a peer wins, by more than {EVEN - 1:.0%}:", "", *(lost or ["None."]), "",
            "### Share of the speed of a bare HTTP echo that reads the whole body before it answers", "",
            *table(share, sizes)]


def table(rows: dict[str, dict[int, str]], sizes: list[int]) -> list[str]:
    return [*header(sizes), *(row(name, [found.get(n, "") for n in sizes]) for name, found in rows.items())]


def is_ours(cell: Cell) -> bool:
    return cell.stack.name.startswith("fishplate-")


def others(cells: list[Cell], cell: Cell) -> list[Cell]:
    """What others did with the same operation and size."""
    return [found for found in cells if found.rounds and not is_ours(found)
            and (found.n, found.operation) == (cell.n, cell.operation)]


def other(cells: list[Cell], cell: Cell, name: str) -> Cell | None:
    return next((found for found in others(cells, cell) if found.stack.name == name), None)


def by_stack(cells: list[Cell], operation: str) -> dict[str, dict[int, Cell]]:
    found: dict[str, dict[int, Cell]] = {}
    for cell in cells:
        if cell.operation == operation:
            found.setdefault(cell.stack.title, {})[cell.n] = cell
    return found


def timed(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.not_measured:
        return "not measured"
    return f"{milliseconds(cell.median)} ({milliseconds(cell.least)})"


def counted(cell: Cell | None) -> str:
    if cell is None or cell.bytes_out is None:
        return "" if cell is None else "not measured"
    return f"{cell.bytes_out:,}, {cell.bytes_back:,}"


def milliseconds(seconds: float) -> str:
    """Three digits that count."""
    value = seconds * 1000
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def header(sizes: list[int]) -> list[str]:
    return [row("n", [str(n) for n in sizes]), "|---" * (len(sizes) + 1) + "|"]


def row(first: str, cells: list[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"

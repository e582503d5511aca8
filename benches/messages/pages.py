"""The page of `run.py messages`: where it stands, then a table an operation."""

from collections.abc import Callable

TITLES = {
    "pingpong": "PingPong: there and back", "ping*pong": "Ping\\*Pong: 10 there, then 10 back",
    "matrix": "Communication of a matrix multiplication", "broadcast": "Broadcast", "gather": "Gather",
    "barrier": "Barrier", "reduce": "Reduce", "allreduce": "allReduce",
    "moldyn": "A step of MolDyn: 3 allReduce of n by n, 3 of one, 3 barriers",
    "waiting": "A barrier to which rank 0 comes 20 ms late",
}
COLLECTIVE = ("broadcast", "gather", "reduce", "allreduce")
KIB = 1024


def size_of(n: int) -> int:
    return 8 * n * n


def told(n: int) -> str:
    size = size_of(n)
    for factor, unit in ((KIB**2, "MiB"), (KIB, "KiB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


# Where it should stand: what, of which cells, ours, whom it is compared with, the ratio that it should not exceed.
def aims() -> list[tuple[str, Callable, str, str, float]]:
    def cell(operation: str, form: str, ranks: int, least: int, most: int) -> Callable:
        return lambda c: (c.operation in operation.split() and c.side.form == form and c.ranks == ranks
                          and not c.algorithms and least <= size_of(c.n) <= most)

    both = "ours-tcp ours-soap"
    return [
        ("PingPong, 8 B", cell("pingpong", "buffers", 2, 8, 8), both, "openmpi-tcp", 2.0),
        ("PingPong, 64 KiB to 1 MiB", cell("pingpong", "buffers", 2, 60 * KIB, 1100 * KIB), both, "openmpi-tcp", 1.0),
        ("PingPong, above", cell("pingpong", "buffers", 2, 1100 * KIB, 1 << 40), both, "raw", 1.1),
        ("PingPong of objects, below 1 MiB", cell("pingpong", "objects", 2, 0, 1000 * KIB), both, "openmpi-tcp", 1.0),
        ("PingPong of objects, from 1 MiB", cell("pingpong", "objects", 2, 1000 * KIB, 1 << 40), both, "openmpi-tcp", 0.5),
        ("Ping\\*Pong, from 4 KiB", cell("ping*pong", "buffers", 2, 4 * KIB, 1 << 40), both, "openmpi-tcp", 1.0),
        ("barrier, 4 ranks", cell("barrier", "buffers", 4, 0, 1), both, "openmpi-tcp", 1.2),
        # Without data nothing is sent.
        ("collective operations, 4 ranks, below 64 KiB",
         cell("broadcast gather reduce allreduce", "buffers", 4, 8, 60 * KIB), both, "openmpi-tcp", 1.2),
        ("collective operations, 4 ranks, from 64 KiB",
         cell("broadcast gather reduce allreduce", "buffers", 4, 60 * KIB, 1 << 40), both, "openmpi-tcp", 1.0),
        ("a step of MolDyn, 4 ranks", cell("moldyn", "buffers", 4, 0, 1 << 40), both, "openmpi-tcp", 1.02),
        ("shared memory, PingPong to 64 KiB", cell("pingpong", "buffers", 2, 8, 70 * KIB), "ours-memory", "openmpi-memory", 1.5),
        ("shared memory, PingPong above", cell("pingpong", "buffers", 2, 70 * KIB, 1 << 40), "ours-memory", "openmpi-memory", 1.3),
    ]


def standing(cells: list) -> str:
    """Times against the aims; a ratio below one is ahead. Least times of messages; of collective operations medians, because who comes last to
    one of them is done at once."""
    lines = ["| what | ours | beside | aim | ratios of times, by size | reached |", "|---|---|---|---|---|---|"]
    by_key = {cell.key: cell for cell in cells}
    for title, is_meant, names, peer, aim in aims():
        for name in names.split():
            found = []
            for cell in filter(is_meant, cells):
                other = by_key.get((*cell.key[:4], peer, ""))
                if cell.side.name == name and other:
                    shown = cell.operation if len({c.operation for c in filter(is_meant, cells)}) > 1 else ""
                    ours, theirs = ((cell.least, other.least) if cell.operation.startswith("ping")
                                    else (cell.median, other.median))
                    found.append((ours / theirs, f"{shown} {told(cell.n)}".strip()))
            if found:
                reached = sum(ratio <= aim for ratio, _ in found)
                ratios = ", ".join(f"{where} {'' if ratio <= aim else '**'}{ratio:.2f}{'' if ratio <= aim else '**'}"
                                   for ratio, where in found)
                lines.append(f"| {title} | {name} | {peer} | {aim} | {ratios} | {reached} of {len(found)} |")
    return "\n".join(lines)


def page(network: str, about: str, cells: list, moldyn: list[str], left_out: dict[str, str]) -> str:
    lines = [
        f"# Messages between ranks, {network}", "", about, "",
        "Times are least and median microseconds of an operation at rank 0, over all rounds; the sides take turns of some "
        "hundredths of a second. A matrix is n by n doubles. Objects are what mpi4py pickles (NumPy's arrays), of MPJ "
        "Express Java's arrays as `MPI.OBJECT`. Before it was timed, each cell was run once, and all numbers compared.",
        "", f"![plots](messages-{network}.svg)", "", "## Where it stands", "", standing(cells),
    ]
    for operation, title in TITLES.items():
        for ranks in sorted({cell.ranks for cell in cells if cell.operation == operation}):
            lines += ["", f"## {title}, {ranks} ranks", "", *table(
                [cell for cell in cells if cell.operation == operation and cell.ranks == ranks])]
    four = [cell for cell in cells if cell.ranks == 4 and not cell.algorithms and cell.side.form == "buffers"]
    if four:
        lines += ["", "## Four ranks: operations a second, and processor time of all ranks for each", "", *processor(four)]
    if moldyn:
        lines += ["", "## MolDyn as a whole, seconds from the command to its end: least, median", "",
                  "`examples/moldyn/moldyn.c`, unmodified, its energy compared with the published one. *Serial*: all collective "
                  "operations named so (paper 002, 4.5.1).", "", *moldyn]
    if left_out:
        lines += ["", "Left out:", "", *(f"- {name}: {why}" for name, why in left_out.items())]
    return "\n".join(lines) + "\n"


def table(cells: list) -> list[str]:
    sizes = sorted({cell.n for cell in cells})
    head = "".join(f" | n = {n}, {told(n)}" if n else " | nothing" for n in sizes)
    lines = [f"| side | messages{head} |", f"|---|---|{'---|' * len(sizes)}"]
    rows: dict[tuple, dict] = {}
    for cell in cells:
        rows.setdefault((cell.side.form, cell.side.title, cell.algorithms), {})[cell.n] = cell
    for (form, title, algorithms), row in rows.items():
        shown = [f"{row[n].least * 1e6:.4g}, {row[n].median * 1e6:.4g}" if n in row else "" for n in sizes]
        named = ": " + ", ".join(one.partition("=")[2] if "," not in algorithms else one for one in algorithms.split(",")) if algorithms else ""
        lines.append(f"| {title}{named} | {form} | {' | '.join(shown)} |")
    return lines


def processor(cells: list) -> list[str]:
    """What waiting costs: with fewer processors than ranks, who waits awake keeps others from running."""
    sides = list(dict.fromkeys(cell.side.title for cell in cells))
    where = [key for key in dict.fromkeys((cell.operation, cell.n) for cell in cells) if key[0] in ("barrier", "waiting", "pingpong", "allreduce", "moldyn")]
    by_key = {(cell.operation, cell.n, cell.side.title): cell for cell in cells}
    lines = [f"| operation | {' | '.join(sides)} |", f"|---|{'---|' * len(sides)}"]
    for operation, n in where:
        shown = []
        for side in sides:
            cell = by_key.get((operation, n, side))
            shown.append(f"{1 / cell.median:,.0f}/s, {cell.cpu * 1e6:,.0f} µs" if cell else "")
        lines.append(f"| {operation}{', ' + told(n) if n else ''} | {' | '.join(shown)} |")
    return lines

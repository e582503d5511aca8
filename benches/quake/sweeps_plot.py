"""sweeps_plot.py QUAKE.JSON SVG: what the sweeps of clients, of admission and of memory give, and when they refuse. Runs with a Python that has
matplotlib."""

import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fishplate"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

# Over what each is drawn; each combination of its other values is a line.
SWEEPS = {"clients": "workload.clients", "admission": "queued", "memory": "threshold"}
PICTURES = {
    "right answers a second": lambda of: of["goodput"],
    "median latency, ms": lambda of: milliseconds(of["latency"], "p50"),
    "99 % of latencies, ms": lambda of: milliseconds(of["latency"], "p99"),
    "99 % of times to a refusal, ms": lambda of: milliseconds(of["refusal"], "p99"),
}


def number(value: str) -> float:
    """Of a value that begins with one: `300`, `435MiB`."""
    digits, unit = re.fullmatch(r"([\d.]+)\s*(\w?).*", value).groups()
    return float(digits) * 2 ** (10 * " kmgt".index(unit.lower() or " "))


def milliseconds(quantiles: dict | None, name: str) -> float | None:
    return quantiles[name] / 1000 if quantiles else None


def main(results: str, picture: str) -> None:
    experiments = json.loads(Path(results).read_text())["experiments"]
    sweeps = [name for name in SWEEPS if name in experiments]
    figure, places = plt.subplots(len(sweeps), len(PICTURES), figsize=(20, 5 * len(sweeps)), layout="constrained", squeeze=False)
    for sweep, row in zip(sweeps, places, strict=True):
        over, cells = SWEEPS[sweep], experiments[sweep]["cells"]
        at = sorted({cell["values"][over] for cell in cells}, key=number)
        lines: dict[str, dict[str, dict]] = {}
        for cell in cells:
            others = ", ".join(f"{value} {name.rpartition('.')[2]}" for name, value in cell["values"].items() if name != over)
            lines.setdefault(others, {})[cell["values"][over]] = cell
        for axes, (title, pick) in zip(row, PICTURES.items(), strict=True):
            drawn = False
            for label, of in lines.items():
                points = [(at.index(value), found) for value, cell in of.items() if (found := pick(cell)) is not None]
                if points:
                    drawn = True
                    axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=4, label=label or None)
            axes.set(title=f"{sweep}: {title}", xlabel=over.rpartition(".")[2])
            axes.set_xticks(range(len(at)), at)
            if "ms" in title:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.grid(True, linewidth=0.4)
            if not drawn:
                axes.text(0.5, 0.5, "none", transform=axes.transAxes)
            if drawn and any(lines):
                axes.legend(fontsize=8)
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""plot.py CSV SVG: round trips of echo over n, one line a stack. Runs with a Python that has matplotlib."""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fishplate"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

# A colour a family, a dash a packaging: who and how are seen apart.
COLOURS = {"fishplate": "#d62728", "gsoap": "#1f77b4", "cxf": "#2ca02c", "axis": "#9467bd",
           "zeep": "#ff7f0e", "http": "#7f7f7f", "tcp": "#7f7f7f"}
DASHES = {"xml": "-", "base64": (0, (1, 1)), "mtom": "--", "swa": "-.", "mime": "-.", "dime": ":",
          "whole": "--", "stream": "-", "tcp": ":"}
MARKS = {"xml": "o", "base64": "v", "mtom": "s", "swa": "^", "mime": "^", "dime": "D"}


def main(table: str, picture: str) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            network = row["network"]
            if row["operation"] == "echo" and row["round"] == "all" and row["median_seconds"]:
                point = int(row["n"]), float(row["median_seconds"]) * 1000
                lines.setdefault(row["stack"], []).append(point)
    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    for stack, points in lines.items():
        family, _, packaging = stack.partition("-")
        packaging = packaging or family
        axes.plot(*zip(*points, strict=True), label=stack.replace("-", " "),
                  color=COLOURS.get(family, "black"),
                  linestyle=DASHES.get(packaging, "-"), marker=MARKS.get(packaging, "x"), markersize=4,
                  linewidth=2 if family == "fishplate" else 1.2)
    axes.set(xscale="log", yscale="log", xlabel="n, of a matrix of n by n floats",
             ylabel="round trip, ms (median)", title=f"echo of a matrix, {network}")
    ticks = sorted({n for points in lines.values() for n, _ in points})
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.minorticks_off()
    axes.grid(True, which="major", linewidth=0.4)
    figure.legend(fontsize=8, loc="outside right center")
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])

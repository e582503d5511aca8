"""messages_plot.py CSV SVG: least times over size, one picture an operation, and barriers over ranks. Runs with a Python that has matplotlib."""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fishplate"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

# A colour a side; objects are dashed, named algorithms dotted.
COLOURS = {"ours-tcp": "#d62728", "ours-soap": "#ff7f0e", "ours-memory": "#8c564b", "openmpi-tcp": "#1f77b4",
           "openmpi-memory": "#17becf", "mpich-tcp": "#2ca02c", "mpj": "#9467bd", "raw": "#7f7f7f"}
MARKS = "osv^D"
PICTURES = ("pingpong", "ping*pong", "matrix", "broadcast", "gather", "reduce", "allreduce", "barrier", "moldyn")


def main(table: str, picture: str) -> None:
    with open(table, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["round"] == "all"]
    figure, places = plt.subplots(3, 3, figsize=(19, 15), layout="constrained")
    seen = {}
    for operation, axes in zip(PICTURES, places.flat, strict=True):
        cells = [row for row in rows if row["operation"] == operation]
        most = max((int(row["ranks"]) for row in cells), default=0)
        over_ranks = operation == "barrier"
        lines: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
        for row in cells:
            if over_ranks or int(row["ranks"]) == most:
                at = int(row["ranks"] if over_ranks else row["n"])
                line = row["side"], row["form"], row["algorithms"]
                lines.setdefault(line, []).append((at, float(row["least_seconds"]) * 1e6))
        named = sorted({algorithms for _, _, algorithms in lines if algorithms})
        for (side, form, algorithms), points in lines.items():
            style = ":" if algorithms else "--" if form == "objects" else "-"
            mark = MARKS[named.index(algorithms) % len(MARKS)] if algorithms else "o" if side.startswith("ours") else "."
            label = f"{side} {form} {algorithms}".strip()
            plotted, = axes.plot(*zip(*sorted(points), strict=True), label=label, color=COLOURS.get(side, "black"), linestyle=style,
                                 marker=mark, markersize=4, linewidth=2 if side.startswith("ours") and not algorithms else 1.1)
            if algorithms:
                axes.legend(handles=[*getattr(axes.get_legend(), "legend_handles", []), plotted], fontsize=7)
            else:
                seen.setdefault(label, plotted)
        if not over_ranks:
            axes.set_xscale("symlog", linthresh=1)
            ticks = sorted({int(row["n"]) for row in cells})
            axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.set(yscale="log", xlabel="ranks" if over_ranks else "n, of n by n doubles", ylabel="least time, µs",
                 title=operation if over_ranks else f"{operation}, {most} ranks")
        axes.minorticks_off()
        axes.grid(True, which="major", linewidth=0.4)
    figure.legend(handles=list(seen.values()), fontsize=9, loc="outside lower center", ncols=5)
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""figure8_plot.py CSV SVG: time over size, one line a way. Runs with a Python that has matplotlib."""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fishplate"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

# A colour a family, a dash a packaging.
LOOKS = {
    "cp": ("#7f7f7f", "-"), "value-base64": ("#1f77b4", ":"), "value-mtom": ("#1f77b4", "--"),
    "value-swa": ("#1f77b4", "-."), "value-dime": ("#1f77b4", "-"), "reference": ("#d62728", "-"),
    "same-server": ("#d62728", "--"), "curl": ("#2ca02c", "-"), "curl-sha256": ("#2ca02c", "--"),
    "rsync": ("#9467bd", "-"), "scp": ("#9467bd", "--"),
}
UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))


def main(table: str, picture: str) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            if row["round"] == "all":
                lines.setdefault(row["way"], []).append((int(row["bytes"]), float(row["seconds"])))
            network = row["network"]
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    for way, points in lines.items():
        colour, dash = LOOKS.get(way, ("black", "-"))
        ours = way in ("reference", "same-server")
        axes.plot(*zip(*points, strict=True), label=way, color=colour, linestyle=dash, marker="o",
                  markersize=3, linewidth=2.2 if ours else 1.2)
    axes.set(xscale="log", yscale="log", xlabel="size", ylabel="time, s (median)",
             title=f"A file from one end to the other, {network} (paper 000, Figure 8)")
    sizes = sorted({size for points in lines.values() for size, _ in points})
    axes.set_xticks(sizes, [told(size) for size in sizes])
    axes.minorticks_off()
    axes.grid(True, which="major", linewidth=0.4)
    figure.legend(fontsize=8, loc="outside right center")
    figure.savefig(picture, metadata={"Date": None})


def told(size: int) -> str:
    factor, unit = next(pair for pair in UNITS if size >= pair[0])
    return f"{size / factor:g} {unit}"


if __name__ == "__main__":
    main(*sys.argv[1:])

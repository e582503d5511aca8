"""What the demo prints and writes: the meshes' sizes (the paper's Table 1), the times (its
Table 2), and the same as JSON."""

import dataclasses
import os
import platform
from pathlib import Path

from .bench import Row
from .case import PAPER_TABLE_1, Case
from .stress import Hoop

WAYS = {"direct": "directly", "service": "service"}


def hoop_line(hoop: Hoop) -> str:
    """The one line that says whether the chain computes what it should."""
    return (
        f"Lame hoop stress at the bore: computed {hoop.computed:.2f} MPa, "
        f"closed form {hoop.closed_form:.2f} MPa, error {abs(hoop.error):.2f} %"
    )


def mesh_table(counts: tuple[int, int, int], size: int | None) -> str:
    """The solid mesh as in Table 1."""
    lines = ["Table 1, solid mesh", f"{'':24}{'vertices':>10}{'triangles':>11}{'tets':>9}"]
    lines.append("{:24}{:>10,}{:>11,}{:>9,}".format("this run", *counts))
    if size is not None:
        lines.append(
            "{:24}{:>10,}{:>11,}{:>9,}".format(f"paper, size {size}", *PAPER_TABLE_1[size])
        )
    return "\n".join(lines)


def overhead(direct: float, service: float) -> tuple[float, float]:
    """Seconds, and per cent of the direct time."""
    return service - direct, 100 * (service / direct - 1)


def total(rows: list[Row], way: str) -> float:
    """The sum of the medians."""
    return sum(row.median(way) for row in rows)


def time_table(rows: list[Row]) -> str:
    """The times as in Table 2; without services, the direct column alone."""
    both = all("service" in row.times for row in rows)
    width = max(len(row.title) for row in rows) + 2
    head = f"{'component':{width}}{'runs':>5}{'directly':>11}"
    if both:
        head += f"{'service':>11}{'overhead':>18}"
    lines = ["Table 2, seconds, median of runs both ways in turns", head]
    for row in rows:
        line = f"{row.title:{width}}{len(row.times['direct']):>5}{row.median('direct'):>11.3f}"
        if both:
            line += times(row.median("direct"), row.median("service"))
        lines.append(line)
    line = f"{'total':{width}}{'':>5}{total(rows, 'direct'):>11.3f}"
    if both:
        line += times(total(rows, "direct"), total(rows, "service"))
    return "\n".join([*lines, line])


def times(direct: float, service: float) -> str:
    """The columns that the services add."""
    seconds, per_cent = overhead(direct, service)
    return f"{service:>11.3f}{seconds:>+9.3f}{per_cent:>+7.1f} %"


def figures(case: Case, counts: tuple[int, int, int], hoop: Hoop, rows: list[Row]) -> dict:
    """Everything, for programs."""
    components = []
    for row in rows:
        component = {"component": row.title, "service": row.service, "seconds": row.times}
        component["median"] = {way: row.median(way) for way in row.times}
        components.append(component)
    sums = {way: total(rows, way) for way in rows[0].times}
    result = {
        "machine": {
            "cores": os.cpu_count(),
            "processor": processor(),
            "system": platform.platform(),
        },
        "inputs": dataclasses.asdict(case),
        "mesh": dict(zip(("vertices", "triangles", "tetrahedra"), counts, strict=True)),
        "bore_hoop_stress": {
            "computed_MPa": hoop.computed,
            "closed_form_MPa": hoop.closed_form,
            "error_per_cent": hoop.error,
            "nodes": hoop.nodes,
            "scatter_per_cent": hoop.scatter,
        },
        "components": components,
        "total": sums,
    }
    for entry, medians in [*((c, c["median"]) for c in components), (result, sums)]:
        if "service" in medians:
            seconds, per_cent = overhead(medians["direct"], medians["service"])
            entry["overhead"] = {"seconds": seconds, "per_cent": per_cent}
    return result


def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()

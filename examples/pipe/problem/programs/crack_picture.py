#!/usr/bin/env python3
"""Draws how a crack grew: the lower half of the pipe with its temperatures (or stresses), the fronts, K_I along them.

Ours; no third party's.
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from calculix import BadDeck
from crack_front import read_deck, read_nodal
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipedemo.picture import EIGHT, FAINT, FOUR, INK, PALETTE, slice_tets
from pipedemo.render import Camera, Scene, render
from pipedemo.stress import outer_faces

CRACKED = np.array([0.13, 0.05, 0.09])
"""The colour of the crack's side."""


def field(result: Path) -> tuple[str, dict[int, float]]:
    """What colours the pipe: temperatures if there are any, else the largest principal stress."""
    try:
        return "temperature\nK", {node: row[0] for node, row in read_nodal(result, "NDTEMP", 1).items()}
    except BadDeck:
        stress = read_nodal(result, "STRESS", 6)
    xx, yy, zz, xy, yz, zx = np.array(list(stress.values())).T
    tensor = np.stack([xx, xy, zx, xy, yy, yz, zx, yz, zz], axis=1).reshape(-1, 3, 3)
    return "largest principal\nstress, MPa", dict(zip(stress, np.linalg.eigvalsh(tensor)[:, 2], strict=True))


def lower_half(points: np.ndarray, elements: np.ndarray, value: np.ndarray, cracked: np.ndarray) -> Scene:
    """The pipe below the plane of the crack; `cracked` marks the nodes of the crack's lower side."""
    faces = outer_faces(elements)
    faces = faces[points[faces[:, :3], 2].mean(axis=1) < 0.0] if len(faces) else faces
    above = outer_faces(elements)
    crack = above[cracked[above].all(axis=1) & (np.abs(points[above, 2]).max(axis=1) < 1e-6)]
    parts = [(points[faces[:, FOUR].reshape(-1, 3)], value[faces[:, FOUR].reshape(-1, 3)])]
    up = points[crack[:, FOUR].reshape(-1, 3)]
    normal = np.cross(up[:, 1] - up[:, 0], up[:, 2] - up[:, 0])
    up[normal[:, 2] < 0] = up[normal[:, 2] < 0][:, [0, 2, 1]]
    parts.append((up, np.full(up.shape[:2], np.nan)))
    edges = np.concatenate([each[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2) for each in (faces, crack)])
    lines = [points[np.unique(np.sort(edges, axis=1), axis=0)]]
    level = -1e-5
    corners = points[elements[:, :4]]
    crossing = (corners[..., 2].min(axis=1) < level) & (corners[..., 2].max(axis=1) > level)
    small = elements[crossing][:, EIGHT].reshape(-1, 4)
    cut, at = slice_tets(points[small], value[small], 2, level)
    wrong = np.cross(cut[:, 1] - cut[:, 0], cut[:, 2] - cut[:, 0])[:, 2] < 0
    cut[wrong], at[wrong] = cut[wrong][:, [0, 2, 1]], at[wrong][:, [0, 2, 1]]
    parts.append((cut, at))
    sides, _ = slice_tets(corners[crossing], np.zeros((crossing.sum(), 4)), 2, level, False)
    lines.append(sides)
    triangles, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    size = np.linalg.norm(normals, axis=1)
    triangles, values, normals = triangles[size > 0], values[size > 0], normals[size > 0] / size[size > 0][:, None]
    return Scene(triangles, values, np.repeat(normals[:, None], 3, axis=1), np.concatenate(lines))


def body(figure, mesh: Path, result: Path) -> None:
    """The lower half of the pipe, seen from above, its inner side in front."""
    deck = read_deck(mesh)
    name, values = field(result)
    numbers = np.array(sorted(deck.nodes))
    points = np.array([deck.nodes[number] for number in numbers])
    elements = np.searchsorted(numbers, np.array(list(deck.elements.values())))
    value = np.array([values[number] for number in numbers])
    cracked = np.isin(numbers, deck.sets["NODES_5B"])
    low, high = np.percentile(value, [0.5, 99.5])
    norm = Normalize(low, max(high, low + 1e-9))
    colours = plt.get_cmap(PALETTE)

    def colour(at: np.ndarray) -> np.ndarray:
        found = colours(norm(np.nan_to_num(at)))[:, :3]
        found[np.isnan(at)] = CRACKED
        return found

    middle = points[elements[:, :4]].mean(axis=(0, 1))[:2]
    outward = middle / np.linalg.norm(middle)
    camera = Camera(toward=(*(-0.5 * outward), 0.87), up=(*outward, 0.0))
    picture = render(lower_half(points, elements, value, cracked), camera, 1120, 960, 3, colour)
    axes = figure.add_axes((0.09, 0.1, 0.45, 0.76))
    axes.imshow(picture, interpolation="lanczos")
    axes.axis("off")
    bar = figure.add_axes((0.045, 0.21, 0.012, 0.54))
    scale = figure.colorbar(ScalarMappable(norm, colours), cax=bar)
    bar.set_title(name, size=13, loc="left", pad=12)
    scale.outline.set_visible(False)
    figure.text(
        0.045, 0.05, f"{len(elements):,} ten-node tetrahedra, {len(points):,} nodes at the last step; "
        "cut at the plane of the crack, which is dark", size=12, color=FAINT,
    )  # fmt: skip


def growth(figure, history: np.ndarray, front: np.ndarray, mouth: float) -> None:
    """The fronts in the crack's plane, and K_I along them."""
    plane, along = figure.add_axes((0.61, 0.53, 0.34, 0.33)), figure.add_axes((0.61, 0.12, 0.34, 0.3))
    middle = np.arctan2(*history[:, [2, 1]].mean(axis=0))

    def unrolled(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (np.arctan2(y, x) - middle) * mouth, mouth - np.hypot(x, y)

    steps = np.unique(history[:, 0])
    shades = plt.get_cmap("viridis")(np.linspace(0.1, 0.85, len(steps)))
    for step, shade in zip(steps, shades, strict=True):
        rows = history[history[:, 0] == step]
        plane.plot(*unrolled(rows[:, 1], rows[:, 2]), "o-", color=shade, lw=1.8, ms=3)
        length = np.append(0, np.cumsum(np.linalg.norm(np.diff(rows[:, 1:4], axis=0), axis=1)))
        intensities = rows[:, 4] / np.sqrt(1000)
        along.plot(length / length[-1], intensities, color=shade, lw=1.8)
        # However many there are, each is told where it ends.
        along.annotate(
            f"step {step:.0f}", (1, intensities[-1]), xytext=(6, 0), textcoords="offset points", va="center", color=shade, fontsize=11
        )
    x, depth = unrolled(*front.T)
    plane.plot(x[depth >= 0], depth[depth >= 0], "--", color=FAINT, lw=1.5, label="next")
    plane.axhline(0, color=INK, lw=1)
    plane.set(xlabel="along the bore, mm", ylabel="depth, mm", aspect="equal", title="The crack's front")
    plane.set_adjustable("datalim")
    plane.invert_yaxis()
    along.set(xlabel="along the front", ylabel="$K_I$, MPa$\\sqrt{m}$", title="Stress intensity", xlim=(0, 1))
    plane.legend(frameon=False, fontsize=11)
    for axes in (plane, along):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.18)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", type=Path, help="the last mesh as t4_to_t10.py writes it")
    parser.add_argument("result", type=Path, help="the mechanical solver's .frd")
    parser.add_argument("history", type=Path, help="a row a node of each front: step, x, y, z, K_I, K_II, K_III")
    parser.add_argument("front", type=Path, help="x, y of the next front")
    parser.add_argument("mouth", type=float, help="radius of the bore's inner side around the z axis, mm")
    parser.add_argument("picture", type=Path, help="written: PNG")
    wanted = parser.parse_args()
    plt.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": FAINT, "font.size": 13})
    try:
        figure = plt.figure(figsize=(16, 9), dpi=120, facecolor="white")
        figure.text(0.045, 0.93, "A crack grows in a curved pipe", size=27, weight="bold")
        body(figure, wanted.mesh, wanted.result)
        growth(figure, np.loadtxt(wanted.history, ndmin=2), np.loadtxt(wanted.front, ndmin=2), wanted.mouth)
        figure.savefig(wanted.picture, format="png", metadata={"Software": None})
    except (BadDeck, OSError, ValueError, KeyError) as error:
        print(f"crack_picture: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The picture of the stress: the pipe cut open, and the stress over the radius against Lame."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from .case import Case
from .render import Camera, Scene, render
from .stress import Field, Hoop, outer_faces

INK, FAINT = "#1b2433", "#68738a"
PALETTE = "Spectral_r"
CAMERA = Camera(toward=(0.55, 0.50, 0.80), up=(0.0, 1.0, 0.0))

# A 10-node tetrahedron as eight 4-node ones: the corners, and the octahedron between them.
EIGHT = np.array(
    [[0, 4, 6, 7], [4, 1, 5, 8], [6, 5, 2, 9], [7, 8, 9, 3]]
    + [[4, 5, 6, 7], [4, 5, 7, 8], [5, 6, 7, 9], [5, 7, 8, 9]]
)
FOUR = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])  # a 6-node triangle as four


def cut_quadrant(case: Case, field: Field) -> Scene:
    """The pipe without its quadrant x > 0, y > 0; the value is the hoop stress."""
    hoop, _, _ = field.rotated()
    faces = outer_faces(field.elements)
    centre = field.points[faces[:, :3]].mean(1)
    faces = faces[~((centre[:, 0] > 0) & (centre[:, 1] > 0))]
    small = faces[:, FOUR].reshape(-1, 3)
    parts = [(field.points[small], hoop[small], surface_normals(field.points[small]))]
    edges = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    lines = [field.points[np.unique(np.sort(edges, axis=1), axis=0)]]
    # A hair inside the material that stays, so that no element has a corner on the plane.
    level = -1e-6 * case.inner
    corners = field.points[field.elements[:, :4]]
    for axis, other in ((1, 0), (0, 1)):
        outward = np.eye(3)[axis]
        crossing = (corners[..., axis].min(1) < level) & (corners[..., axis].max(1) > level)
        crossing &= corners[..., other].mean(1) > 0
        eighths = field.elements[crossing][:, EIGHT].reshape(-1, 4)
        points, value = slice_tets(field.points[eighths], hoop[eighths], axis, level)
        points, value = facing(points, value, outward)
        parts.append((points, value, np.broadcast_to(outward, points.shape)))
        sides, _ = slice_tets(corners[crossing], np.zeros((crossing.sum(), 4)), axis, level, False)
        lines.append(sides)
    triangles, values, normals = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Scene(triangles, values, normals, np.concatenate(lines))


def surface_normals(triangles: np.ndarray) -> np.ndarray:
    """Outward normals at the corners: radial on the bore and outside, axial at the ends."""
    flat = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    flat /= np.linalg.norm(flat, axis=1)[:, None]
    around = triangles.copy()
    around[..., 2] = 0
    around /= np.linalg.norm(around, axis=2)[..., None]
    around *= np.sign((around.mean(1) * flat).sum(1))[:, None, None]
    end = np.abs(flat[:, 2]) > 0.9
    return np.where(end[:, None, None], flat[:, None, :], around)


def slice_tets(points, value, axis: int, level: float, fill: bool = True):
    """Cuts tetrahedra with a plane of the axes.

    With `fill`: triangles (n, 3, 3) and their values (n, 3). Without: the cut's sides (n, 2, 3).
    """
    above = points[..., axis] > level
    edges = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    out_points, out_values = [], []
    for pattern in range(1, 15):
        bits = np.array([bool(pattern >> k & 1) for k in range(4)])
        those = (above == bits).all(1)
        if not those.any():
            continue
        cut = [edge for edge in edges if bits[edge[0]] != bits[edge[1]]]
        if len(cut) == 4:
            cut = ring(cut)
        crossing, at = [], []
        for i, j in cut:
            a, b = points[those, i, axis], points[those, j, axis]
            t = ((level - a) / (b - a))[:, None]
            crossing.append(points[those, i] + t * (points[those, j] - points[those, i]))
            at.append(value[those, i] + t[:, 0] * (value[those, j] - value[those, i]))
        corners = [(0, 1, 2)] if len(cut) == 3 else [(0, 1, 2), (0, 2, 3)]
        if not fill:
            corners = [(k, (k + 1) % len(cut)) for k in range(len(cut))]
        for corner in corners:
            out_points.append(np.stack([crossing[k] for k in corner], axis=1))
            out_values.append(np.stack([at[k] for k in corner], axis=1))
    return np.concatenate(out_points), np.concatenate(out_values)


def ring(edges):
    """Four cut edges in the order in which they follow one another around the cut."""
    order, rest = [edges[0]], list(edges[1:])
    while rest:
        following = next(edge for edge in rest if set(edge) & set(order[-1]))
        rest.remove(following)
        order.append(following)
    return order


def facing(points: np.ndarray, value: np.ndarray, outward: np.ndarray):
    """The same triangles, each turned toward `outward`."""
    normal = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    wrong = normal @ outward < 0
    points[wrong] = points[wrong][:, [0, 2, 1]]
    value[wrong] = value[wrong][:, [0, 2, 1]]
    return points, value


def draw(
    case: Case, field: Field, hoop: Hoop, counts: tuple[int, int, int], path: Path, services: bool
) -> None:
    """Writes the picture, 16:9; `services` tells whether the programs were called through them."""
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "text.color": INK,
            "axes.edgecolor": FAINT,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "font.size": 13,
        }
    )
    figure = plt.figure(figsize=(16, 9), dpi=160, facecolor="white")
    norm = Normalize(case.hoop(case.outer), case.hoop(case.inner))
    colours = plt.get_cmap(PALETTE)
    figure.text(0.035, 0.93, "Thick-walled pipe under internal pressure", size=27, weight="bold")
    how = ", each behind a Fishplate service" if services else ", run directly"
    figure.text(
        0.035,
        0.885,
        f"Meshed and solved by Gmsh, TetGen and CalculiX, unmodified{how}",
        size=15,
        color=FAINT,
    )
    body(figure, case, field, norm, colours)
    profile(figure, case, field, hoop, norm, colours)
    vertices, triangles, tets = counts
    figure.text(
        0.035,
        0.03,
        f"{tets:,} ten-node tetrahedra, {len(field.points):,} nodes; before T4 to T10 {vertices:,} "
        f"vertices, {triangles:,} surface triangles\n"
        f"radii {case.inner:g} and {case.outer:g} mm, length {case.length:g} mm, "
        f"pressure {case.pressure:g} MPa, $E$ = {case.young / 1000:g} GPa, "
        f"$\\nu$ = {case.poisson:g}; ends held along the axis (plane strain)",
        size=12,
        color=FAINT,
        linespacing=1.5,
    )
    figure.savefig(path)
    plt.close(figure)


def body(figure, case: Case, field: Field, norm: Normalize, colours) -> None:
    """The pipe, cut open, with the scale of its colours."""
    width, height = 1160, 1040
    picture = render(
        cut_quadrant(case, field),
        CAMERA,
        width,
        height,
        3,
        lambda value: colours(norm(value))[:, :3],
    )
    axes = figure.add_axes((0.105, 0.125, 0.42, 0.73))
    axes.imshow(picture, interpolation="lanczos")
    axes.axis("off")
    bar = figure.add_axes((0.05, 0.21, 0.012, 0.54))
    scale = figure.colorbar(ScalarMappable(norm, colours), cax=bar)
    bar.set_title("hoop stress\nMPa", size=13, loc="left", pad=12)
    scale.outline.set_visible(False)


def profile(figure, case: Case, field: Field, hoop: Hoop, norm: Normalize, colours) -> None:
    """Stress over the radius: every node in the middle half, and the closed form."""
    axes = figure.add_axes((0.60, 0.175, 0.37, 0.66))
    middle = np.abs(field.points[:, 2] / case.length - 0.5) < 0.25
    r = field.radius[middle]
    at_hoop, at_radial, _ = (stress[middle] for stress in field.rotated())
    axes.scatter(r, at_radial, s=5, color="#9aa5b8", linewidths=0, alpha=0.55, rasterized=True)
    axes.scatter(r, at_hoop, s=5, c=at_hoop, norm=norm, cmap=colours, linewidths=0, alpha=0.8)
    exact = np.linspace(case.inner, case.outer, 200)
    axes.plot(exact, case.hoop(exact), color=INK, lw=2)
    axes.plot(exact, case.radial(exact), color=INK, lw=2, ls=(0, (5, 2)))
    axes.axhline(0, color=FAINT, lw=0.8)
    axes.set_xlabel("radius, mm")
    axes.set_ylabel("stress, MPa")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.18)
    axes.set_xlim(case.inner - 0.04 * np.ptp(exact), case.outer + 0.02 * np.ptp(exact))
    x = case.inner + 0.55 * np.ptp(exact)
    span = case.hoop(case.inner) + case.pressure
    axes.set_ylim(-case.pressure - 0.06 * span, case.hoop(case.inner) + 0.08 * span)
    axes.text(x, case.hoop(x) + 0.045 * span, "hoop", size=15, weight="bold")
    axes.text(x, case.radial(x) - 0.075 * span, "radial", size=15, weight="bold")
    axes.annotate(
        "hoop stress at the bore\n"
        f"computed {hoop.computed:9.2f} MPa\n"
        f"Lamé     {hoop.closed_form:9.2f} MPa\n"
        f"error    {hoop.error:+9.2f} %",
        (case.inner, hoop.closed_form),
        xytext=(0.40, 0.90),
        textcoords="axes fraction",
        size=13.5,
        va="center",
        family="DejaVu Sans Mono",
        linespacing=1.35,
        arrowprops={"arrowstyle": "-", "color": FAINT, "shrinkB": 6, "relpos": (0, 0.86)},
    )
    axes.plot([], [], color=INK, lw=2, label="Lamé's closed form")
    axes.scatter([], [], s=22, color="#9aa5b8", label="CalculiX, at the nodes (middle half)")
    axes.legend(frameon=False, loc="lower right", fontsize=12.5)

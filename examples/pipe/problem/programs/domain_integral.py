"""The energy release rate along a crack's front, as an integral over the solid around it.

Virtual crack extension: if the field q moves the front by q and keeps all walls where they are, the energy released is

    G = int (s_ij u_i,k - W d_jk) q_k,j dV + int a s_ii T,k q_k dV - int t_i u_i,k q_k dS

(deLorenzi, 1982; Shih, Moran, Nakamura, 1986, with thermal strains and loads on the crack's sides). W is the elastic
energy's density, a the coefficient of expansion, t the load on a surface. q is linear in each tetrahedron, one on the
front and inside of a tube around it, and falls off to zero at the tube's end and along the front.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from calculix import BadDeck
from crack_front import FACES, Deck, Front, projection, unit

RADIUS, CORE = 4.0, 1.0
"""The tube in which q falls to zero, and the one in which it is one: in mean edges of the front."""
SPREAD = 2.0
"""How far q reaches along the front to each side, in the same."""

A, B = 0.58541020, 0.13819660
GAUSS = np.array([[A, B, B, B], [B, A, B, B], [B, B, A, B], [B, B, B, A]])
"""Four points of a tetrahedron, of equal weight, as CalculiX integrates C3D10."""
MIDDLES = ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))


@dataclass(frozen=True)
class Solid:
    """Linear elastic and isotropic; stresses begin at `reference` K."""

    young: float
    poisson: float
    expansion: float = 0.0
    reference: float = 0.0

    def stress(self, strain: np.ndarray) -> np.ndarray:
        """The stress of an elastic strain, rows of 3 by 3 matrices."""
        shear = self.young / (2 * (1 + self.poisson))
        lame = 2 * shear * self.poisson / (1 - 2 * self.poisson)
        trace = np.trace(strain, axis1=-2, axis2=-1)
        return 2 * shear * strain + lame * trace[..., None, None] * np.eye(3)


def shapes(local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ten shape functions at points in four natural coordinates, and their derivatives by the last three."""
    value = [c * (2 * c - 1) for c in local.T] + [4 * local[:, i] * local[:, j] for i, j in MIDDLES]
    by = np.zeros((len(local), 10, 4))
    for k in range(4):
        by[:, k, k] = 4 * local[:, k] - 1
    for k, (i, j) in enumerate(MIDDLES, 4):
        by[:, k, i], by[:, k, j] = 4 * local[:, j], 4 * local[:, i]
    return np.column_stack(value), by[..., 1:] - by[..., :1]


def gradients(points: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of elements (n, 10, 3) at local points: shape functions, their gradients (n, points, 10, 3), and the Jacobian."""
    value, by = shapes(local)
    jacobian = np.einsum("gal,nai->ngil", by, points)
    return value, np.einsum("gal,ngli->ngai", by, np.linalg.inv(jacobian)), np.linalg.det(jacobian)


def read_pressure(path: Path | None, deck: Deck) -> dict[tuple[int, int], float]:
    """The pressures of a deck's part (*DLOAD by face, *DSLOAD by surface), MPa by (element, face 1 to 4)."""
    found: dict[tuple[int, int], float] = {}
    kind = ""
    for line in path.read_text(encoding="ascii").splitlines() if path else ():
        if line.startswith("**"):
            continue
        if line.startswith("*"):
            kind = line.split(",")[0].strip().upper()
            continue
        words = [word.strip() for word in line.split(",")]
        match kind, words:
            case _, [""]:
                continue
            case "*DLOAD", [element, "P1" | "P2" | "P3" | "P4" as side, load] if element.isdecimal():
                faces = [(int(element), int(side[1]))]
                if faces[0][0] not in deck.elements:
                    raise BadDeck(f"{path}: {line!r}: the mesh has no such element")
            case "*DSLOAD", [surface, "P", load]:
                if surface not in deck.surfaces:
                    raise BadDeck(f"{path}: {line!r}: the mesh has no such surface")
                faces = deck.surfaces[surface]
            case _:
                raise BadDeck(f"{path}: {line!r} is no pressure on a face")
        for face in faces:
            found[face] = found.get(face, 0.0) + float(load)
    return found


def release_rates(
    deck: Deck,
    front: Front,
    solid: Solid,
    displacement: dict[int, np.ndarray],
    temperature: dict[int, float] | None,
    pressure: dict[tuple[int, int], float],
) -> np.ndarray:
    """The energy release rate at each node of the front, N/mm."""
    begin, _ = front.sides
    edge = front.arc[-1] / len(begin)
    moved = extensions(deck, front, edge)
    inside = [number for number, nodes in deck.elements.items() if any(node in moved for node in nodes[:4])]
    nodes = np.array([deck.elements[number] for number in inside])
    points = np.array([[deck.nodes[node] for node in row] for row in nodes])
    shift = np.array([[displacement[node] for node in row] for row in nodes])
    value, by, jacobian = gradients(points, GAUSS)
    if (jacobian <= 0).any():
        raise BadDeck(f"{(jacobian <= 0).any(axis=1).sum()} elements at the front are inside out")
    slope = np.einsum("nai,ngak->ngik", shift, by)
    strain = (slope + slope.swapaxes(2, 3)) / 2
    heating = np.zeros((len(inside), len(GAUSS), 3))
    if temperature:
        warm = np.array([[temperature[node] for node in row] for row in nodes])
        swelling = solid.expansion * (warm @ value.T - solid.reference)
        strain = strain - swelling[..., None, None] * np.eye(3)
        heating = solid.expansion * np.einsum("na,ngak->ngk", warm, by)
    stress = solid.stress(strain)
    energy = np.einsum("ngij,ngij->ng", stress, strain) / 2
    flow = np.einsum("ngij,ngik->ngkj", stress, slope) - energy[..., None, None] * np.eye(3)
    weight = jacobian / 6 / len(GAUSS)
    flow = np.einsum("ng,ngkj->nkj", weight, flow)
    straight = np.linalg.inv(np.concatenate([np.ones((len(inside), 4, 1)), points[:, :4]], axis=2))
    linear = straight[:, 1:].swapaxes(1, 2)
    where = np.einsum("ga,nai->ngi", value, points)
    share = straight[:, None, 0] + np.einsum("ngi,nic->ngc", where, straight[:, 1:])
    heated = np.einsum("ng,ngii,ngk,ngc->nck", weight, stress, heating, share)
    loaded = side_loads(deck, dict(zip(inside, range(len(inside)), strict=True)), points, shift, pressure)
    # By corner: what a unit of q there releases.
    by_corner = np.einsum("nkj,ncj->nck", flow, linear) + heated - loaded
    total = np.zeros(len(front.points))
    for row, four in enumerate(nodes[:, :4]):
        for corner, node in enumerate(four):
            if node in moved:
                total += moved[node] @ by_corner[row, corner]
    return total / swept(front, moved)


def swept(front: Front, moved: dict[int, np.ndarray]) -> np.ndarray:
    """The area that the front sweeps for a unit of each q, mm: only what is across the front counts."""
    area = np.zeros(len(front.points))
    for a, b, long in zip(*front.sides, np.diff(front.arc), strict=True):
        for k in (a, b):
            area += long / 2 * (moved[front.numbers[k]] @ front.ahead[k])
    return area


def extensions(deck: Deck, front: Front, edge: float) -> dict[int, np.ndarray]:
    """q of each corner that it moves: a row for each node of the front around which it is one."""
    corners = sorted({node for nodes in deck.elements.values() for node in nodes[:4]})
    at = np.array([deck.nodes[node] for node in corners])
    near = ((at > front.points.min(axis=0) - RADIUS * edge) & (at < front.points.max(axis=0) + RADIUS * edge)).all(
        axis=1
    )
    corners, at = [node for node, is_near in zip(corners, near, strict=True) if is_near], at[near]
    r, arc, side, part = projection(front, at)
    fall = np.clip((RADIUS - r / edge) / (RADIUS - CORE), 0.0, 1.0)
    begin, end = front.sides
    ahead = unit(front.ahead[begin[side]] * (1 - part)[:, None] + front.ahead[end[side]] * part[:, None])
    walls = wall_normals(deck)
    moved = {}
    stations = front.arc[: len(front.points)]
    for k, node in enumerate(corners):
        if fall[k] == 0.0:
            continue
        apart = np.abs(arc[k] - stations)
        if front.closed:
            apart = np.minimum(apart, front.arc[-1] - apart)
        tent = np.clip(1 - apart / (SPREAD * edge), 0.0, 1.0)
        toward = ahead[k]
        for normal in walls.get(node, ()):
            toward = toward - (toward @ normal) * normal
        moved[node] = fall[k] * tent[:, None] * toward
    return moved


def wall_normals(deck: Deck) -> dict[int, list[np.ndarray]]:
    """The normals of the walls (all surfaces but the crack's sides) at their corners, orthogonal to each other."""
    found: dict[int, list[np.ndarray]] = {}
    for name in deck.surfaces:
        if name[-1] in "AB":
            continue
        faces = deck.faces(name)[:, :3]
        at = np.array([[deck.nodes[node] for node in face] for face in faces])
        area = np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0])
        total: dict[int, np.ndarray] = {}
        for face, normal in zip(faces, area, strict=True):
            for node in face:
                total[node] = total.get(node, 0.0) + normal
        for node, normal in total.items():
            for other in found.get(node, ()):
                normal = normal - (normal @ other) * other
            found.setdefault(node, []).append(normal / np.linalg.norm(normal))
    return found


def side_loads(
    deck: Deck,
    row_of: dict[int, int],
    points: np.ndarray,
    shift: np.ndarray,
    pressure: dict[tuple[int, int], float],
) -> np.ndarray:
    """By element and corner: the work of the pressures for a unit of q, the last integral above."""
    found = np.zeros((len(points), 4, 3))
    third = np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]]) / 6
    for (number, side), load in pressure.items():
        row = row_of.get(number)
        if row is None:
            continue
        corners = FACES[side - 1][:3]
        local = np.zeros((3, 4))
        local[:, corners] = third
        _, by, _ = gradients(points[row : row + 1], local)
        slope = np.einsum("ai,gak->gik", shift[row], by[0])
        a, b, c = points[row, corners]
        # The side is plane and its mid-side nodes lie on its edges, but not half way: the area's weight differs.
        push = -load * np.cross(b - a, c - a) / 2
        weight = surface_weights(points[row], side, third)
        found[row] += np.einsum("g,i,gik,gc->ck", weight, push, slope, physical(points[row], local))
    return found


def surface_weights(points: np.ndarray, side: int, third: np.ndarray) -> np.ndarray:
    """Weights of three points of a side, which add up to about one: the area there by the whole side's."""
    six = points[FACES[side - 1]]
    by = np.zeros((3, 6, 3))
    for k in range(3):
        by[:, k, k] = 4 * third[:, k] - 1
        n = (k + 1) % 3
        by[:, 3 + k, k], by[:, 3 + k, n] = 4 * third[:, n], 4 * third[:, k]
    along, across = (np.einsum("ga,ai->gi", by[..., k] - by[..., 0], six) for k in (1, 2))
    area = np.linalg.norm(np.cross(along, across), axis=1)
    whole = np.linalg.norm(np.cross(six[1] - six[0], six[2] - six[0]))
    return area / whole / 3


def physical(points: np.ndarray, local: np.ndarray) -> np.ndarray:
    """The natural coordinates of the straight tetrahedron at points given in those of the ten-node one."""
    value, _ = shapes(local)
    where = value @ points
    matrix = np.concatenate([np.ones((4, 1)), points[:4]], axis=1)
    return np.concatenate([np.ones((len(where), 1)), where], axis=1) @ np.linalg.inv(matrix)

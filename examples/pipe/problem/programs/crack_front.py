"""A crack in a mesh of 10-node tetrahedra, as t4_to_t10.py writes it: its front, its sides, its displacements."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from calculix import BadDeck, read_mesh, read_results

# Corners and mid-side nodes of the faces S1 to S4 of C3D10 (CalculiX 2.20 manual), seen from outside counter-clockwise.
FACES = np.array([[0, 2, 1, 6, 5, 4], [0, 1, 3, 4, 8, 7], [1, 2, 3, 5, 9, 8], [2, 0, 3, 6, 7, 9]])


@dataclass(frozen=True)
class Deck:
    """The parts of a deck: nodes and elements by number, node sets and surfaces (element, face 1 to 4) by name."""

    nodes: dict[int, np.ndarray]
    elements: dict[int, list[int]]
    sets: dict[str, list[int]]
    surfaces: dict[str, list[tuple[int, int]]]

    def faces(self, name: str) -> np.ndarray:
        """The faces of a surface, six nodes each, counter-clockwise seen from outside the element."""
        if name not in self.surfaces:
            raise BadDeck(f"the mesh has no surface {name}")
        return np.array([np.array(self.elements[number])[FACES[side - 1]] for number, side in self.surfaces[name]])


def read_deck(path: Path) -> Deck:
    """Reads the mesh that t4_to_t10.py wrote."""
    mesh = read_mesh(path)
    return Deck(
        dict(zip(mesh.nodes.tolist(), mesh.points, strict=True)),
        {number: corners for number, *corners in mesh.elements.tolist()},
        {name: nodes.tolist() for name, nodes in mesh.sets.items()},
        {name: [(element, face) for element, face in rows.tolist()] for name, rows in mesh.surfaces.items()},
    )


def read_nodal(path: Path, name: str, width: int) -> dict[int, np.ndarray]:
    """The last results of a name (DISP, STRESS, NDTEMP) by node."""
    nodes, values = read_results(path, name, width)
    return dict(zip(nodes.tolist(), values, strict=True))


@dataclass(frozen=True)
class Front:
    """The crack's front as the mesh has it: a polygon of nodes, open (it ends at a wall) or closed."""

    numbers: list[int]
    """Nodes in their order; of a closed front the first one once."""
    points: np.ndarray
    closed: bool
    normal: np.ndarray
    """At each node, of unit length, from side B to side A."""
    tangent: np.ndarray
    ahead: np.ndarray
    """At each node, in the crack's surface, into the uncracked solid."""
    arc: np.ndarray
    """Length of the polygon up to each node, mm; of a closed front one more, its whole length."""

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Begin and end of each side of the polygon, as rows of `points`."""
        count = len(self.points)
        begin = np.arange(count if self.closed else count - 1)
        return begin, (begin + 1) % count


def front_of(deck: Deck, marker: str = "5") -> Front:
    """The front of the crack with this marker."""
    faces = deck.faces(f"SURFACE_{marker}A")[:, :3]
    on_front = set(deck.sets.get("NODES_FRONT", ()))
    uses: dict[tuple[int, int], list[int]] = {}
    for row, face in enumerate(faces):
        for a, b in zip(face, np.roll(face, -1), strict=True):
            uses.setdefault((min(a, b), max(a, b)), []).append(row)
    edges = {edge: rows[0] for edge, rows in uses.items() if len(rows) == 1 and on_front.issuperset(edge)}
    beside: dict[int, list[int]] = {}
    for a, b in edges:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    ends = sorted(node for node, others in beside.items() if len(others) == 1)
    if len(edges) < 3 or len(ends) not in (0, 2) or any(len(others) > 2 for others in beside.values()):
        raise BadDeck(f"the front has {len(edges)} edges and {len(ends)} ends: it is no line")
    chain = [ends[0] if ends else min(beside)]
    before = 0
    while True:
        following = [node for node in beside[chain[-1]] if node != before]
        if not following or following[0] == chain[0]:
            break
        before = chain[-1]
        chain.append(min(following) if len(chain) == 1 else following[0])
    if len(chain) != len(beside):
        raise BadDeck("the front is in several pieces")
    closed = not ends
    at = np.array([deck.nodes[node] for node in chain])
    corner = np.array([[deck.nodes[node] for node in face] for face in faces])
    # A face's outward normal points out of side A's elements, so to B.
    area = -np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    place = {node: k for k, node in enumerate(chain)}
    normal = np.zeros_like(at)
    inward = np.zeros_like(at)
    for row, face in enumerate(faces):
        for node in face:
            if node in place:
                normal[place[node]] += area[row]
                inward[place[node]] += np.linalg.norm(area[row]) * (corner[row].mean(axis=0) - deck.nodes[node])
    normal = unit(normal)
    step = np.diff(np.vstack([at, at[:1]]) if closed else at, axis=0)
    length = np.linalg.norm(step, axis=1)
    toward = step / length[:, None]
    # The tangent at a node: of the circle through it and its neighbours.
    last = np.roll(toward, 1, axis=0) if closed else np.vstack([toward[:1], toward])
    after = toward if closed else np.vstack([toward, toward[-1:]])
    behind = np.roll(length, 1) if closed else np.append(length[0], length)
    before_it = length if closed else np.append(length, length[-1])
    tangent = unit(last * before_it[:, None] + after * behind[:, None])
    ahead = unit(np.cross(normal, tangent))
    if np.sum(ahead * inward) > 0:
        ahead = -ahead
    return Front(chain, at, closed, normal, tangent, ahead, np.append(0.0, np.cumsum(length)))


def unit(rows: np.ndarray) -> np.ndarray:
    """Each row, made one long."""
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def projection(front: Front, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The nearest place on the front's polygon of each point: distance, arc length, side, and part of that side."""
    begin, end = front.sides
    a, along = front.points[begin], front.points[end] - front.points[begin]
    length = np.linalg.norm(along, axis=1)
    part = np.einsum("nmk,mk->nm", points[:, None] - a[None], along) / length**2
    part = np.clip(part, 0.0, 1.0)
    distance = np.linalg.norm(points[:, None] - a[None] - part[..., None] * along[None], axis=2)
    side = distance.argmin(axis=1)
    rows = np.arange(len(points))
    part = part[rows, side]
    return distance[rows, side], front.arc[side] + part * length[side], side, part

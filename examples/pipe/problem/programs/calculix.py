"""CalculiX's meshes and results as arrays. Ours."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Corners and mid-side nodes of the faces S1 to S4 of a C3D10 (CalculiX 2.20 manual, "Ten-node tetrahedral element").
FACES = np.array([[0, 1, 2, 4, 5, 6], [0, 3, 1, 7, 8, 4], [1, 3, 2, 8, 9, 5], [2, 3, 0, 9, 7, 6]])


class BadDeck(Exception):
    """A mesh or a result that is not as it must be; the text says what is missing."""


@dataclass(frozen=True)
class Mesh:
    """A mesh of C3D10, mm."""

    nodes: np.ndarray
    """Their numbers, ascending."""
    points: np.ndarray
    elements: np.ndarray
    """Number and ten nodes a row, by ascending number."""
    surfaces: dict[str, np.ndarray]
    """Of each element surface: element and face (1 to 4) a row."""
    sets: dict[str, np.ndarray]
    """Of each node set: numbers of nodes."""

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """The rows of nodes of these numbers."""
        return np.searchsorted(self.nodes, nodes)

    def faces(self, surface: str) -> np.ndarray:
        """The six nodes (numbers) of each face of a surface."""
        if surface not in self.surfaces:
            raise BadDeck(f"the mesh has no surface {surface}")
        element, face = self.surfaces[surface].T
        found = self.elements[np.searchsorted(self.elements[:, 0], element), 1:]
        return np.take_along_axis(found, FACES[face - 1], axis=1)

    def centres(self, surface: str) -> np.ndarray:
        """The middles of a surface's faces, mm."""
        return self.points[self.rows(self.faces(surface)[:, :3])].mean(1)


def read_mesh(path: Path) -> Mesh:
    """Reads nodes, elements, element surfaces and node sets of an input deck."""
    nodes: list[str] = []
    elements: list[str] = []
    surfaces: dict[str, list[str]] = {}
    sets: dict[str, list[str]] = {}
    into: list[str] | None = None
    with path.open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("**"):
                continue
            if line.startswith("*"):
                words = [word.strip().upper() for word in line.split(",")]
                options = dict(word.partition("=")[::2] for word in words[1:])
                match words[0]:
                    case "*NODE":
                        into = nodes
                    case "*ELEMENT":
                        if options.get("TYPE") != "C3D10":
                            raise BadDeck(f"elements of type {options.get('TYPE')}; C3D10 wanted")
                        into = elements
                    case "*SURFACE":
                        into = surfaces.setdefault(options["NAME"], [])
                    case "*NSET":
                        into = sets.setdefault(options["NSET"], [])
                    case _:
                        into = None
            elif into is not None:
                into.append(line)
    if not nodes or not elements:
        raise BadDeck("the mesh has no nodes or no elements")
    try:
        table = np.array(",".join(nodes).split(","), dtype=float).reshape(-1, 4)
        tets = np.array(",".join(elements).split(","), dtype=int).reshape(-1, 11)
        found = {
            name: np.array(",".join(rows).replace("S", "").split(","), dtype=int).reshape(-1, 2)
            for name, rows in surfaces.items()
            if rows
        }
        listed = {name: np.array(",".join(rows).split(","), dtype=int) for name, rows in sets.items() if rows}
    except ValueError as error:
        raise BadDeck(f"the mesh is not made of numbers: {error}") from None
    table, tets = table[table[:, 0].argsort()], tets[tets[:, 0].argsort()]
    return Mesh(table[:, 0].astype(int), table[:, 1:], tets, found, listed)


def read_results(path: Path, name: str, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The last results of a name (DISP, STRESS, NDTEMP) in a result file (.frd, text): numbers of nodes, ascending, and
    `width` values a row.

    Numbers stand in fixed columns, twelve characters each (cgx manual, "Nodal Results Block")."""
    block: list[str] = []
    reading = False
    with path.open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith(" -4"):
                reading = line.split()[1] == name
                block = [] if reading else block
            elif line.startswith(" -3"):
                reading = False
            elif reading and line.startswith(" -1"):
                block.append(line)
    if not block:
        raise BadDeck(f"the result has no {name}")
    nodes = np.array([line[3:13] for line in block], dtype=int)
    columns = [[line[13 + 12 * k : 25 + 12 * k] for k in range(width)] for line in block]
    order = nodes.argsort()
    return nodes[order], np.array(columns, dtype=float)[order]


def read_temperatures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The last temperatures of a result file: numbers of nodes, ascending, and K."""
    nodes, temperatures = read_results(path, "NDTEMP", 1)
    return nodes, temperatures[:, 0]

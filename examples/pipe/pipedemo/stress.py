"""Stresses from CalculiX's result file, in the pipe's own directions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .case import Case
from .process import Failed


@dataclass(frozen=True)
class Field:
    """The solution at the nodes. Rows are nodes; `elements` holds rows, ten an element."""

    points: np.ndarray
    elements: np.ndarray
    stress: np.ndarray
    """xx, yy, zz, xy, yz, zx in MPa."""

    @property
    def radius(self) -> np.ndarray:
        """Distance from the axis, mm."""
        return np.hypot(self.points[:, 0], self.points[:, 1])

    def rotated(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hoop, radial and axial stress at each node, MPa."""
        c, s = (self.points[:, :2] / self.radius[:, None]).T
        xx, yy, zz, xy = self.stress[:, :4].T
        hoop = s * s * xx + c * c * yy - 2 * s * c * xy
        radial = c * c * xx + s * s * yy + 2 * s * c * xy
        return hoop, radial, zz


def read_frd(path: Path) -> Field:
    """Reads nodes, 10-node tetrahedra and the last stresses of a .frd file (text).

    Numbers stand in fixed columns, twelve characters each (cgx manual, "Nodal Results Block").
    """
    points, elements, stress = {}, [], {}
    block = None
    with path.open(encoding="ascii") as lines:
        for line in lines:
            key = line[:3]
            if key == " -1" and block == "points":
                points[int(line[3:13])] = values(line, 3)
            elif key == " -1" and block == "stress":
                stress[int(line[3:13])] = values(line, 6)
            elif key == " -2" and block == "elements":
                elements.append([int(line[k : k + 10]) for k in range(3, 103, 10)])
            elif line.startswith("    2C"):
                block = "points"
            elif line.startswith("    3C"):
                block = "elements"
            elif line.startswith(" -4"):
                block = "stress" if line.split()[1] == "STRESS" else None
            elif key == " -3":
                block = None
    if not points or not elements or points.keys() != stress.keys():
        raise Failed(f"{path}: no stresses at {len(points)} nodes of {len(elements)} elements")
    numbers = np.array(sorted(points))
    return Field(
        np.array([points[number] for number in numbers]),
        np.searchsorted(numbers, np.array(elements)),
        np.array([stress[number] for number in numbers]),
    )


def values(line: str, count: int) -> list[float]:
    """The numbers of a line of nodal values."""
    return [float(line[13 + 12 * k : 25 + 12 * k]) for k in range(count)]


@dataclass(frozen=True)
class Hoop:
    """The hoop stress at the bore, MPa."""

    computed: float
    closed_form: float
    nodes: int
    scatter: float
    """Standard deviation over the nodes, per cent of the closed form."""

    @property
    def error(self) -> float:
        """Per cent of the closed form."""
        return 100 * (self.computed / self.closed_form - 1)


def bore_hoop(case: Case, field: Field) -> Hoop:
    """The mean hoop stress over the bore's surface in the middle half of the length.

    The bore is found by its geometry: element faces that belong to one element only and whose
    three corners lie on the inner radius. The nodal stresses are integrated over these faces with
    the elements' own quadratic shape functions: over a flat triangle those of the corners give
    nothing, and each mid-side node counts for a third of the area.
    """
    faces = outer_faces(field.elements)
    # The .frd holds six digits; faces of the wall's ends touch the bore with two corners at most.
    on_bore = np.abs(field.radius[faces[:, :3]] - case.inner).max(axis=1) < 1e-4 * case.inner
    middle = np.abs(field.points[faces[:, :3], 2] / case.length - 0.5).max(axis=1) < 0.25
    faces = faces[on_bore & middle]
    if len(faces) == 0:
        raise Failed("no element faces on the bore in the middle half of the length")
    a, b, c = (field.points[faces[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    weight = np.zeros(len(field.points))
    np.add.at(weight, faces[:, 3:], area[:, None] / 3)
    hoop, _, _ = field.rotated()
    on = weight > 0
    mean = np.average(hoop[on], weights=weight[on])
    closed_form = case.hoop(case.inner)
    scatter = np.sqrt(np.average((hoop[on] - mean) ** 2, weights=weight[on]))
    return Hoop(float(mean), closed_form, int(on.sum()), float(100 * scatter / closed_form))


# The faces of a 10-node tetrahedron: three corners, then the mid-side nodes between 1-2, 2-3, 3-1;
# seen from outside, the corners run counter-clockwise.
FACES_T10 = np.array(
    [[0, 2, 1, 6, 5, 4], [0, 1, 3, 4, 8, 7], [1, 2, 3, 5, 9, 8], [2, 0, 3, 6, 7, 9]]
)


def outer_faces(elements: np.ndarray) -> np.ndarray:
    """The faces that belong to one element only, six nodes each."""
    faces = elements[:, FACES_T10].reshape(-1, 6)
    _, first, count = np.unique(
        np.sort(faces[:, :3], axis=1), axis=0, return_index=True, return_counts=True
    )
    return faces[first[count == 1]]

"""OpenFOAM's meshes and fields as arrays, and its programs (Debian's 1912). Ours.

No dictionary of a caller's is ever read by OpenFOAM: of a mesh only lists of numbers are taken, and written anew."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ENVIRONMENT = {
    "WM_PROJECT_DIR": "/usr/share/openfoam",
    # Where foam/site/etc/controlDict forbids what dictionaries could run.
    "WM_PROJECT_SITE": str(Path(__file__).resolve().parent / "foam" / "site"),
    # Open MPI refuses root unless told twice.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

HEADER = "FoamFile {{ version 2.0; format ascii; class {0}; object {1}; }}\n"
CLASSES = {"points": "vectorField", "faces": "faceList", "owner": "labelList", "neighbour": "labelList"}
NUMBER = rb"[-+0-9.eE]+"


class BadCase(Exception):
    """A mesh or a field that is not as it must be; the text says which and why."""


@dataclass(frozen=True)
class Patch:
    """The faces of a part of the boundary."""

    count: int
    start: int

    @property
    def faces(self) -> slice:
        """Where they stand among all faces."""
        return slice(self.start, self.start + self.count)


@dataclass(frozen=True)
class Mesh:
    """A polyMesh of triangles and quadrangles."""

    points: np.ndarray
    """m."""
    faces: np.ndarray
    """Four nodes each; of a triangle the last is -1."""
    owner: np.ndarray
    neighbour: np.ndarray
    patches: dict[str, Patch]

    @property
    def cell_count(self) -> int:
        """How many cells there are; the last may own no face."""
        return int(max(self.owner.max(), self.neighbour.max())) + 1

    def centres(self, patch: str) -> np.ndarray:
        """The centroids of a patch's faces (means of their corners), m."""
        return self.mean(self.faces[self.patches[patch].faces])

    def mean(self, faces: np.ndarray) -> np.ndarray:
        """The mean of the corners of each face."""
        there = (faces >= 0)[..., None]
        return np.where(there, self.points[faces], 0).sum(1) / there.sum(1)

    def cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tetrahedra and wedges in VTK's order of nodes, and the number of each as a cell."""
        inside = len(self.neighbour)
        cell = np.concatenate([self.owner, self.neighbour])
        face = np.concatenate([np.arange(len(self.owner)), np.arange(inside)])
        order = np.argsort(cell, kind="stable")
        cell, face = cell[order], face[order]
        flat = self.faces[face, 3] < 0
        count = self.cell_count
        triangles, quadrangles = (np.bincount(cell[which], minlength=count) for which in (flat, ~flat))
        tet, wedge = (triangles == 4) & (quadrangles == 0), (triangles == 2) & (quadrangles == 3)
        if not (tet | wedge).all():
            raise BadCase("the mesh has cells that are neither tetrahedra nor wedges")

        def faces_of(kind: np.ndarray, which: np.ndarray, sides: int) -> np.ndarray:
            return self.faces[face[which & kind[cell]]].reshape(-1, sides, 4)

        four = faces_of(tet, flat, 4)[:, :, :3]
        base, second = four[:, 0], four[:, 1]
        apex = second[~(second[:, :, None] == base[:, None, :]).any(2)]
        tets = self.turned(np.column_stack([base, apex]), 1.0, (1, 0, 2, 3))

        ends, sides = faces_of(wedge, flat, 2)[:, :, :3], faces_of(wedge, ~flat, 3)
        below = ends[:, 0]
        edges = np.stack([sides, np.roll(sides, -1, axis=2)], axis=-1).reshape(len(sides), -1, 2)
        edges = np.concatenate([edges, edges[..., ::-1]], axis=1)
        rising = ~(edges[:, :, 1, None] == below[:, None, :]).any(2)
        above = [
            np.take_along_axis(
                edges[:, :, 1],
                ((edges[:, :, 0] == below[:, k, None]) & rising).argmax(1)[:, None],
                axis=1,
            )
            for k in range(3)
        ]
        wedges = self.turned(np.column_stack([below, *above]), -1.0, (1, 0, 2, 4, 3, 5))
        return tets, np.flatnonzero(tet), wedges, np.flatnonzero(wedge)

    def turned(self, cells: np.ndarray, sign: float, other: tuple[int, ...]) -> np.ndarray:
        """Cells whose fourth node lies on the side of the first three that `sign` says."""
        a, b, c, d = (self.points[cells[:, k]] for k in range(4))
        wrong = sign * np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) < 0
        return np.where(wrong[:, None], cells[:, other], cells)


def body(path: Path) -> bytes:
    """What stands in the one list of a file (ASCII), without its header."""
    data = path.read_bytes()
    if b"#" in data or b"$" in data:
        raise BadCase(f"{path.name} has # or $ in it: a mesh is made of numbers")
    data = re.sub(rb"FoamFile\s*\{[^{}]*\}", b"", data, count=1)
    data = re.sub(rb"//[^\n]*|/\*.*?\*/", b"", data, flags=re.DOTALL)
    found = re.fullmatch(rb"\s*(\d+)\s*\((.*)\)\s*", data, re.DOTALL)
    if not found:
        raise BadCase(f"{path.name} is no list: the number of its entries, and they in parentheses, wanted")
    return found[2]


def numbers(data: bytes, kind: type, name: str) -> np.ndarray:
    """The numbers of a list."""
    try:
        return np.array(data.replace(b"(", b" ").replace(b")", b" ").split(), dtype=kind)
    except ValueError as error:
        raise BadCase(f"{name}: {error}") from None


def read_mesh(folder: Path) -> Mesh:
    """Reads a polyMesh in ASCII."""
    points = numbers(body(folder / "points"), float, "points").reshape(-1, 3)
    owner = numbers(body(folder / "owner"), int, "owner")
    neighbour = numbers(body(folder / "neighbour"), int, "neighbour")
    flat = numbers(body(folder / "faces"), int, "faces")
    faces = np.full((len(owner), 4), -1)
    at = 0
    for row in faces:
        count = flat[at] if at < len(flat) else 0
        if count not in (3, 4):
            raise BadCase(f"faces: a face of {count} nodes, 3 or 4 wanted")
        row[:count] = flat[at + 1 : at + 1 + count]
        at += 1 + count
    # A triangle's fourth is -1, and only that.
    told = np.count_nonzero(faces[:, :3] < 0) + np.count_nonzero(faces[:, 3] < -1)
    if at != len(flat) or told or len(points) == 0 or not -1 <= faces.min() <= faces.max() < len(points):
        raise BadCase("faces: they do not fit to owner and points")
    if len(owner) == 0 or len(neighbour) > len(owner) or min(owner.min(), neighbour.min(initial=0)) < 0:
        raise BadCase("owner and neighbour: a cell's number a face, from 0; neighbour has no more than owner")
    entry = re.compile(rb"(\w+)\s*\{[^{}]*?nFaces\s+(\d+)\s*;\s*startFace\s+(\d+)\s*;[^{}]*\}")
    boundary = body(folder / "boundary")
    patches = {name.decode(): Patch(int(count), int(start)) for name, count, start in entry.findall(boundary)}
    if any(patch.start + patch.count > len(owner) for patch in patches.values()):
        raise BadCase("boundary: a patch goes beyond the last face")
    return Mesh(points, faces, owner, neighbour, patches)


def write_mesh(mesh: Mesh, folder: Path) -> None:
    """Writes a polyMesh in ASCII; the patch `wall` is one of walls."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, rows: list[str]) -> None:
        text = "\n".join(rows)
        (folder / name).write_text(f"{HEADER.format(CLASSES[name], name)}{len(rows)}\n(\n{text}\n)\n")

    write("points", [f"({x:.15g} {y:.15g} {z:.15g})" for x, y, z in mesh.points.tolist()])
    write("faces", [f"{len(f)}({' '.join(map(str, f))})" for f in ([n for n in r if n >= 0] for r in mesh.faces.tolist())])
    write("owner", list(map(str, mesh.owner.tolist())))
    write("neighbour", list(map(str, mesh.neighbour.tolist())))
    rows = [
        f"    {name} {{ type {'wall' if name == 'wall' else 'patch'}; nFaces {p.count}; startFace {p.start}; }}"
        for name, p in mesh.patches.items()
    ]
    text = "\n".join(rows)
    (folder / "boundary").write_text(f"{HEADER.format('polyBoundaryMesh', 'boundary')}{len(rows)}\n(\n{text}\n)\n")


def values(data: bytes, key: bytes, width: int) -> np.ndarray | None:
    """The numbers of a binary field's `key nonuniform List<...>`, or of a uniform one, in the dictionary that `data`
    begins in; `width` a row."""
    uniform = rb"uniform\s+\(?\s*((?:" + NUMBER + rb"\s*){%d})\)?\s*;" % width
    found = re.search(rb"\b" + key + rb"\s+(?:nonuniform\s+List<\w+>\s*(\d+)\s*\(|" + uniform + rb")", data)
    if not found or b"}" in data[: found.start()]:
        return None
    if found[1]:
        count = int(found[1]) * width
        return np.frombuffer(data, dtype="<f8", count=count, offset=found.end()).reshape(-1, width)
    return np.array(found[2].split(), dtype=float).reshape(1, width)


def internal(path: Path, cells: int, width: int = 1) -> np.ndarray:
    """A field in the cells."""
    found = values(re.sub(rb"FoamFile\s*\{[^{}]*\}", b"", path.read_bytes(), count=1), rb"internalField", width)
    if found is None:
        raise BadCase(f"{path.name} has no internalField")
    rows = np.broadcast_to(found, (cells, width))
    return rows[:, 0] if width == 1 else rows


def on_patch(path: Path, patch: str, faces: int, width: int = 1) -> np.ndarray:
    """A field on a patch."""
    data = path.read_bytes()
    at = re.search(rb"\n\s*" + patch.encode() + rb"\s*\{", data)
    found = values(data[at.end() :], rb"value", width) if at else None
    if found is None:
        raise BadCase(f"{path.name} has no values on {patch}")
    rows = np.broadcast_to(found, (faces, width))
    return rows[:, 0] if width == 1 else rows


def field_entry(key: str, field: np.ndarray | float) -> str:
    """An entry of a field's dictionary: `uniform`, or a list."""
    array = np.asarray(field, dtype=float)
    if array.ndim == 0:
        return f"{key} uniform {float(array)!r};\n"
    if array.ndim == 1:
        return f"{key} nonuniform List<scalar> {len(array)}\n(\n" + "\n".join(map(repr, array.tolist())) + "\n);\n"
    rows = "\n".join(f"({x!r} {y!r} {z!r})" for x, y, z in array.tolist())
    return f"{key} nonuniform List<vector> {len(array)}\n(\n{rows}\n);\n"


def make_case(folder: Path) -> None:
    """The case as it is beside this program; links would be followed by OpenFOAM's writes."""
    shutil.copytree(Path(__file__).resolve().parent / "foam", folder)


def run(*words: object, until: str = "") -> bool:
    """Runs one of OpenFOAM's programs; its log is ours. Whether it said `until`. Ends us as it ended, if not well."""
    line = [str(word) for word in words]
    print("+ " + " ".join(line), flush=True)
    said = False
    environment = os.environ | ENVIRONMENT
    with subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            print(text, end="", flush=True)
            said = said or until in text
    if process.returncode:
        sys.exit(f"{line[0]} ended with {process.returncode}")
    return said

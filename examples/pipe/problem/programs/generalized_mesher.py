#!/usr/bin/env python3
"""The generalized mesher (paper 000, section 2): prisms along the wall of the bore, tetrahedra within.

    generalized_mesher.py SURFACE.mesh POLYMESH --layers N --first MM --growth RATIO --size MM

Runs Gmsh, gmshToFoam and checkMesh, one after the other, unmodified. What is ours: the triangles of the bore
(reference 1) are taken out of the surface mesh and turned inwards, and the patches get their names: `wall`, `inlet`
(at the triangles of reference 3), `outlet`. POLYMESH is OpenFOAM's mesh, in m.
"""

import argparse
import sys
from pathlib import Path

import meshio
import numpy as np

import openfoam
from openfoam import BadCase

BORE, INLET, OUTLET = 1, 3, 4


Edge = tuple[int, int]


def inwards(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, list[Edge]]:
    """The triangles of a tube, turned so that all normals point into it, and the directed edges of its ends."""
    turned = triangles.copy()
    sides: dict[frozenset, list[int]] = {}
    for number, (a, b, c) in enumerate(triangles.tolist()):
        for edge in ((a, b), (b, c), (c, a)):
            sides.setdefault(frozenset(edge), []).append(number)
    if any(len(numbers) > 2 for numbers in sides.values()):
        raise BadCase("an edge of the bore belongs to more than two triangles")

    def directed(number: int) -> list[Edge]:
        a, b, c = turned[number].tolist()
        return [(a, b), (b, c), (c, a)]

    seen, waiting = {0}, [0]
    while waiting:
        here = waiting.pop()
        for edge in directed(here):
            for other in sides[frozenset(edge)]:
                if other not in seen:
                    if edge in directed(other):
                        turned[other] = turned[other][[1, 0, 2]]
                    seen.add(other)
                    waiting.append(other)
    if len(seen) != len(triangles):
        raise BadCase("the triangles of the bore do not hang together")
    # The volume that the tube and its ends enclose, the ends closed by fans around their centres.
    ends = [edge[::-1] for n in range(len(turned)) for edge in directed(n) if len(sides[frozenset(edge)]) == 1]
    a, b, c = (points[turned[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6
    for loop in loops(ends):
        p, q = points[[edge[0] for edge in loop]], points[[edge[1] for edge in loop]]
        volume += np.einsum("ij,j->", np.cross(p, q), p.mean(0)) / 6
    return turned[:, [1, 0, 2]] if volume > 0 else turned, ends


def loops(edges: list[Edge]) -> list[list[Edge]]:
    """Closed chains of directed edges."""
    following = dict(edges)
    found = []
    while following:
        start = here = next(iter(following))
        chain = []
        while here in following:
            there = following.pop(here)
            chain.append((here, there))
            here = there
        if here != start:
            raise BadCase("an end of the bore is not closed")
        found.append(chain)
    return found


def take_bore(surface: Path, bore: Path) -> None:
    """Writes the bore's triangles, turned inwards, with the curves of its ends."""
    try:
        mesh = meshio.read(surface, "medit")
    except (meshio.ReadError, ValueError, IndexError, KeyError) as error:
        raise BadCase(f"the surface is no Medit mesh: {error}") from None
    blocks = [k for k, block in enumerate(mesh.cells) if block.type == "triangle"]
    if not blocks:
        raise BadCase("the surface has no triangles")
    triangles = np.concatenate([mesh.cells[k].data for k in blocks])
    marks = np.concatenate([mesh.cell_data["medit:ref"][k] for k in blocks])
    for mark, name in ((BORE, "bore"), (INLET, "inlet's end")):
        if not (marks == mark).any():
            raise BadCase(f"the surface has no triangles of reference {mark}, the {name}")
    points = np.asarray(mesh.points, dtype=float)
    used, at = np.unique(triangles[marks == BORE], return_inverse=True)
    inner, ends = inwards(points[used], at.reshape(-1, 3))
    come_in = set(np.flatnonzero(np.isin(used, triangles[marks == INLET])).tolist())
    found = {INLET if chain[0][0] in come_in else OUTLET: chain for chain in loops(ends)}
    if len(ends) != sum(map(len, found.values())) or len(found) != 2:
        raise BadCase("the bore wants two ends, one of them at triangles of reference 3")
    bore.write_text(with_topology(points[used], inner, found))


def with_topology(points: np.ndarray, triangles: np.ndarray, ends: dict[int, list[Edge]]) -> str:
    """A surface and its end curves in Gmsh's format 4.1 (Gmsh reference manual, "MSH file format").

    What Gmsh finds out for itself (CreateTopology) begins a curve at another node each time."""
    on_curve = {number: [edge[0] for edge in chain] for number, chain in ends.items()}
    taken = {node for nodes in on_curve.values() for node in nodes}
    box = " ".join(f"{value:.17g}" for value in (*points.min(0), *points.max(0)))

    def place(node: int) -> str:
        return " ".join(f"{value:.17g}" for value in points[node])

    entities = [f"2 {len(ends)} 1 0"]
    entities += [f"{number} {place(nodes[0])} 0" for number, nodes in on_curve.items()]
    entities += [f"{number} {box} 0 2 {number} -{number}" for number in ends]
    entities += [f"{BORE} {box} 0 {len(ends)} " + " ".join(map(str, ends))]
    blocks = [(0, number, nodes[:1]) for number, nodes in on_curve.items()]
    blocks += [(1, number, nodes[1:]) for number, nodes in on_curve.items()]
    blocks += [(2, BORE, [node for node in range(len(points)) if node not in taken])]
    nodes = [f"{len(blocks)} {len(points)} 1 {len(points)}"]
    for dimension, number, members in blocks:
        nodes += [f"{dimension} {number} 0 {len(members)}"]
        nodes += [str(node + 1) for node in members] + [place(node) for node in members]
    cells = [(0, number, 15, [nodes[:1]]) for number, nodes in on_curve.items()]
    cells += [(1, number, 1, chain) for number, chain in ends.items()]
    cells += [(2, BORE, 2, triangles.tolist())]
    count = sum(len(rows) for *_, rows in cells)
    elements = [f"{len(cells)} {count} 1 {count}"]
    number = 0
    for dimension, entity, kind, rows in cells:
        elements += [f"{dimension} {entity} {kind} {len(rows)}"]
        for row in rows:
            number += 1
            elements += [f"{number} " + " ".join(str(node + 1) for node in row)]
    sections = {"MeshFormat": ["4.1 0 8"], "Entities": entities, "Nodes": nodes, "Elements": elements}
    return "".join(f"${name}\n" + "\n".join(lines) + f"\n$End{name}\n" for name, lines in sections.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("surface", type=Path)
    parser.add_argument("mesh", type=Path)
    for name in ("layers", "first", "growth", "size"):
        parser.add_argument(f"--{name}", required=True)
    wanted = parser.parse_args()
    take_bore(wanted.surface, Path("bore.msh"))
    geometry = Path(__file__).resolve().parent / "prisms.geo"
    Path("prisms.geo").write_bytes(geometry.read_bytes())
    words = [w for name in ("layers", "first", "growth", "size") for w in ("-setnumber", name, getattr(wanted, name))]
    # One thread, so that the same call gives the same bytes.
    openfoam.run("gmsh", "prisms.geo", "-3", "-nt", "1", "-format", "msh2", "-o", "gas.msh", *words)
    openfoam.make_case(Path("case"))
    parameters = {"step": 1, "iterations": 1, "tolerance": 1, "format": "ascii"}
    Path("case/start").mkdir()
    Path("case/start/parameters").write_text("".join(f"{key} {value};\n" for key, value in parameters.items()))
    openfoam.run("gmshToFoam", "-case", "case", "gas.msh")
    mesh = openfoam.read_mesh(Path("case/constant/polyMesh"))
    if set(mesh.patches) != {"wall", "inlet", "outlet"}:
        raise BadCase(f"patches {', '.join(mesh.patches)}: wall, inlet, outlet wanted")
    openfoam.write_mesh(mesh, wanted.mesh)
    openfoam.write_mesh(mesh, Path("case/constant/polyMesh"))
    openfoam.run("checkMesh", "-case", "case", "-constant")


if __name__ == "__main__":
    try:
        main()
    except (BadCase, OSError) as error:
        sys.exit(f"generalized_mesher: {error}")

#!/usr/bin/env python3
"""Converts a mesh of 4-node tetrahedra into 10-node ones for CalculiX.

    t4_to_t10.py MESH.node MESH.ele MESH.face MESH.inp    as TetGen writes it
    t4_to_t10.py [--crack MARKER [--held X Y Z]] MESH.mesh MESH.inp    Medit, as TetGen (-g) and Gmsh write it

The result is the part of a CalculiX input deck that holds the mesh:

- all nodes (set ALL); corners keep their numbers, mid-side nodes follow;
- all elements, type C3D10 (set SOLID), every one with a positive volume;
- for each boundary marker M of the faces: the nodes on it, mid-side ones too (node set NODES_M),
  and the element faces that make it up (element surface SURFACE_M).

Mid-side nodes stand exactly half way between their corners: sides stay straight. An edge that
several tetrahedra share has one mid-side node. The Python standard library is all it needs.

With --crack, the faces of that marker lie inside and are a crack: its nodes are doubled, except on
its front. The two sides are SURFACE_<MARKER>A and SURFACE_<MARKER>B (with node sets alike), the
front's corners NODES_FRONT. The mid-side nodes of edges that begin at the front are moved to a
quarter of the way, so that strains are singular there as the root of the distance (Barsoum, 1976).

With --held, the node nearest to that place is the set NODES_HELD: a deck can fix it.
"""

import math
import sys

# The edges of a tetrahedron in the order of C3D10's mid-side nodes 5 to 10, and its faces S1 to S4
# (CalculiX 2.20 manual, "Ten-node tetrahedral element").
EDGES = ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))
FACES = ((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))

# Words in a row of each part of a Medit file, the reference included.
MEDIT = {"Vertices": 4, "Edges": 3, "Triangles": 4, "Tetrahedra": 5, "Corners": 1}

PER_LINE = 16  # entries on a line of a set, the most that CalculiX reads


class BadMesh(Exception):
    """The files are no mesh of 4-node tetrahedra; the text says what is wrong where."""


def rows(path):
    """The lines of a TetGen file as lists of words, comments and empty lines left out."""
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#", 1)[0].split()
            if words:
                yield number, words


def table(path, columns, convert):
    """The table of a TetGen file as {number: values}, and one more column: the boundary marker."""
    lines = rows(path)
    try:
        _, head = next(lines)
        count = int(head[0])
    except (StopIteration, ValueError):
        raise BadMesh(f"{path}: no line that says how many rows follow") from None
    found = {}
    for line, words in lines:
        if len(words) < columns + 1:
            raise BadMesh(f"{path}:{line}: {len(words)} columns, at least {columns + 1} wanted")
        try:
            values = tuple(convert(word) for word in words[1 : columns + 1])
            marker = int(words[columns + 1]) if len(words) > columns + 1 else 0
            found[int(words[0])] = (values, marker)
        except ValueError:
            raise BadMesh(f"{path}:{line}: not a number in {' '.join(words)!r}") from None
    if len(found) != count or count == 0:
        raise BadMesh(f"{path}: {len(found)} rows, {count} announced")
    return found


def medit(path, filled=True):
    """The points, tetrahedra and marked faces of a Medit file, each {number: values}. A file that is
    not `filled` may have no tetrahedra."""
    with open(path, encoding="ascii") as lines:
        words = [word for line in lines for word in line.split("#", 1)[0].split()]
    found = {}
    at = 0
    try:
        while at < len(words) and words[at] != "End":
            key = words[at]
            if key in ("MeshVersionFormatted", "Dimension"):
                at += 2
                continue
            count, width = int(words[at + 1]), MEDIT[key]
            at += 2
            if at + count * width > len(words):
                raise BadMesh(f"{path}: {key}: {count} rows announced, and the file ends before")
            found[key] = [words[k : k + width] for k in range(at, at + count * width, width)]
            at += count * width
        points = found.get("Vertices", [])
        tets = found.get("Tetrahedra", [])
        faces = found.get("Triangles", [])
        if not points or (filled and not tets):
            raise BadMesh(f"{path}: {len(points)} vertices and {len(tets)} tetrahedra")
        return (
            {n: tuple(map(float, row[:3])) for n, row in enumerate(points, 1)},
            {n: tuple(map(int, row[:4])) for n, row in enumerate(tets, 1)},
            {
                n: (tuple(map(int, row[:3])), int(row[3]))
                for n, row in enumerate(faces, 1)
                if row[3] != "0"
            },
        )
    except KeyError as key:
        raise BadMesh(f"{path}: {key} where one of {', '.join(MEDIT)} was wanted") from None
    except (IndexError, ValueError) as wrong:
        raise BadMesh(f"{path}: {wrong}") from None


def volume6(a, b, c, d):
    """Six times the volume of a tetrahedron; negative if d lies on the wrong side of a, b, c."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    wx, wy, wz = d[0] - a[0], d[1] - a[1], d[2] - a[2]
    return ux * (vy * wz - vz * wy) + uy * (vz * wx - vx * wz) + uz * (vx * wy - vy * wx)


class Crack:
    """A crack in a mesh of 4-node tetrahedra, opened by doubling its nodes.

    `points` and `tets` are the mesh with the crack open; `origin` tells of each added node which
    one it doubles; `front` holds the nodes that stay single; `upper` the tetrahedra on side A, by
    face (three sorted corners, before opening). Which side is A depends on the shape alone.
    """

    def __init__(self, points, tets, faces):
        self.points, self.tets, self.origin = dict(points), dict(tets), {}
        crack = {tuple(sorted(corners)): corners for corners in faces}
        if not crack:
            raise BadMesh("no face has the crack's marker")
        nodes = {corner for face in crack for corner in face}
        around = {node: [] for node in nodes}
        for number, corners in tets.items():
            for corner in corners:
                if corner in around:
                    around[corner].append(number)
        self.upper = self.sides(orient(points, crack), around)
        self.front = set()
        above = {}  # by node, the tetrahedra of side A that have a face there
        for face, number in self.upper.items():
            for corner in face:
                above.setdefault(corner, set()).add(number)
        following = max(points) + 1
        for node in sorted(nodes):
            groups = connected(node, around[node], tets, crack)
            if len(groups) == 1:
                self.front.add(node)
            for group in groups:
                if len(groups) > 1 and not above[node] & group:
                    self.points[following] = points[node]
                    self.origin[following] = node
                    for number in group:
                        self.tets[number] = tuple(
                            following if corner == node else corner for corner in self.tets[number]
                        )
                    following += 1
        bridges = [edge for edge in inner_edges(crack) if self.front.issuperset(edge)]
        if bridges:
            raise BadMesh(f"{len(bridges)} edges cross the crack from front to front: refine it")

    def sides(self, oriented, around):
        """The tetrahedron on side A of each face of the crack."""
        found = {}
        for key, (a, b, c) in oriented.items():
            owners = [n for n in around[a] if b in self.tets[n] and c in self.tets[n]]
            if len(owners) != 2:
                raise BadMesh(f"the crack's face {key} has {len(owners)} tetrahedra, 2 wanted")
            for number in owners:
                (apex,) = set(self.tets[number]) - set(key)
                if volume6(*(self.points[node] for node in (a, b, c, apex))) > 0:
                    found[key] = number
        if len(found) != len(oriented):
            raise BadMesh("a face of the crack has both its tetrahedra on one side")
        return found


def edges_of(corners):
    """The three edges of a triangle, smaller node first."""
    return [tuple(sorted((corners[k], corners[(k + 1) % 3]))) for k in range(3)]


def inner_edges(crack):
    """The edges that two faces of the crack share."""
    seen, inner = set(), set()
    for face in crack:
        for edge in edges_of(face):
            (inner if edge in seen else seen).add(edge)
    return inner


def orient(points, crack):
    """The faces with their corners in one sense of rotation all over; of each connected part, the
    largest component of the sum of its normals is positive."""
    beside = {}
    for key in crack:
        for edge in edges_of(key):
            beside.setdefault(edge, []).append(key)
    oriented = {}
    for seed in sorted(crack):
        if seed in oriented:
            continue
        oriented[seed] = crack[seed]
        part, waiting = [seed], [seed]
        while waiting:
            a = oriented[waiting.pop()]
            for i, j in ((a[0], a[1]), (a[1], a[2]), (a[2], a[0])):
                for key in beside[min(i, j), max(i, j)]:
                    if key not in oriented:
                        (third,) = set(key) - {i, j}
                        oriented[key] = (j, i, third)
                        part.append(key)
                        waiting.append(key)
        total = [0.0, 0.0, 0.0]
        for key in part:
            p, q, r = (points[corner] for corner in oriented[key])
            u, v = [q[k] - p[k] for k in range(3)], [r[k] - p[k] for k in range(3)]
            for k in range(3):
                total[k] += u[k - 2] * v[k - 1] - u[k - 1] * v[k - 2]
        if max(total, key=abs) < 0:
            for key in part:
                a, b, c = oriented[key]
                oriented[key] = (b, a, c)
    return oriented


def connected(node, numbers, tets, crack):
    """The tetrahedra around a node in groups that hang together by faces which are not cracked."""
    beside = {}
    for number in numbers:
        others = [corner for corner in tets[number] if corner != node]
        for k in range(3):
            key = tuple(sorted((node, others[k], others[k - 1])))
            if key not in crack:
                beside.setdefault(key, []).append(number)
    neighbours = {number: set() for number in numbers}
    for pair in beside.values():
        if len(pair) == 2:
            neighbours[pair[0]].add(pair[1])
            neighbours[pair[1]].add(pair[0])
    groups, seen = [], set()
    for number in numbers:
        if number in seen:
            continue
        group, waiting = {number}, [number]
        while waiting:
            fresh = neighbours[waiting.pop()] - group
            group |= fresh
            waiting.extend(fresh)
        seen |= group
        groups.append(group)
    return groups


def raise_order(points, tets, front=frozenset()):
    """Adds mid-side nodes, half way or, from a node of `front`, a quarter.

    `points` is {number: (x, y, z)}, `tets` {number: four numbers}. Gives all nodes in the same
    form, the elements as {number: ten numbers}, and how many had to be turned over to have a
    positive volume.
    """
    nodes = dict(points)
    following = max(nodes) + 1
    middles = {}
    elements = {}
    turned = 0
    for number, corners in tets.items():
        try:
            volume = volume6(*(points[corner] for corner in corners))
        except KeyError as missing:
            raise BadMesh(
                f"tetrahedron {number} names node {missing}, which is not there"
            ) from None
        if volume == 0.0:
            raise BadMesh(f"tetrahedron {number} has no volume")
        if volume < 0.0:
            corners = (corners[1], corners[0], corners[2], corners[3])
            turned += 1
        sides = []
        for i, j in EDGES:
            a, b = corners[i], corners[j]
            edge = (a, b) if a < b else (b, a)
            middle = middles.get(edge)
            if middle is None:
                middle = middles[edge] = following
                following += 1
                p, q = points[a], points[b]
                w = 0.5 if (a in front) == (b in front) else 0.75 if a in front else 0.25
                nodes[middle] = tuple(w * p[k] + (1 - w) * q[k] for k in range(3))
            sides.append(middle)
        elements[number] = tuple(corners) + tuple(sides)
    return nodes, elements, turned


def boundary(elements, faces, crack=None):
    """The boundary by marker: {marker: (node numbers, [(element, face number 1 to 4)])}.

    `faces` is {number: (three corners, marker)}. A marked face that two elements share lies inside
    and is no boundary, unless it is the crack's: then its sides are `<marker>A` and `<marker>B`.
    """
    wanted = {tuple(sorted(corners)): marker for corners, marker in faces.values()}
    origin = crack.origin if crack else {}
    upper = crack.upper if crack else {}
    owners = {}
    for number, element in elements.items():
        corners = [origin.get(corner, corner) for corner in element[:4]]
        for index, face in enumerate(FACES, 1):
            key = tuple(sorted((corners[face[0]], corners[face[1]], corners[face[2]])))
            if key in wanted:
                owners.setdefault(key, []).append((number, index))
    if len(owners) != len(wanted):
        lost = next(key for key in wanted if key not in owners)
        raise BadMesh(f"the face {lost} belongs to no tetrahedron")
    edge_of = {frozenset(edge): 4 + k for k, edge in enumerate(EDGES)}
    found = {}
    for key, sides in owners.items():
        if len(sides) > 1 and key not in upper:
            continue
        for number, index in sides:
            marker = wanted[key]
            if key in upper:
                marker = f"{marker}{'A' if number == upper[key] else 'B'}"
            element, face = elements[number], FACES[index - 1]
            on_nodes, on_faces = found.setdefault(marker, (set(), []))
            on_faces.append((number, index))
            for k in range(3):
                on_nodes.add(element[face[k]])
                on_nodes.add(element[edge_of[frozenset((face[k], face[(k + 1) % 3]))]])
    return {
        marker: (sorted(found[marker][0]), sorted(found[marker][1]))
        for marker in sorted(found, key=str)
    }


def write_set(out, name, members):
    """Writes a node set."""
    out.write(f"*NSET, NSET={name}\n")
    for start in range(0, len(members), PER_LINE):
        out.write(", ".join(map(str, members[start : start + PER_LINE])) + "\n")


def write_deck(path, nodes, elements, parts, front=(), held=None):
    """Writes the mesh as part of a CalculiX input deck."""
    with open(path, "w", encoding="ascii") as out:
        out.write("*NODE, NSET=ALL\n")
        for number in sorted(nodes):
            # CalculiX reads at most 20 characters of a number: twelve digits always fit.
            out.write("{}, {:.12g}, {:.12g}, {:.12g}\n".format(number, *nodes[number]))
        out.write("*ELEMENT, TYPE=C3D10, ELSET=SOLID\n")
        for number in sorted(elements):
            out.write(f"{number}, {', '.join(map(str, elements[number]))}\n")
        for marker, (on_nodes, on_faces) in parts.items():
            write_set(out, f"NODES_{marker}", on_nodes)
            out.write(f"*SURFACE, NAME=SURFACE_{marker}, TYPE=ELEMENT\n")
            out.writelines(f"{number}, S{index}\n" for number, index in on_faces)
        if front:
            write_set(out, "NODES_FRONT", sorted(front))
        if held is not None:
            write_set(out, "NODES_HELD", [min(nodes, key=lambda n: math.dist(nodes[n], held))])


def tetgen(node_path, element_path, face_path):
    """The points, tetrahedra and marked faces of TetGen's files, each {number: values}."""
    return (
        {number: values for number, (values, _) in table(node_path, 3, float).items()},
        {number: values for number, (values, _) in table(element_path, 4, int).items()},
        table(face_path, 3, int),
    )


def convert(*paths, crack_marker=None, held=None):
    """The whole conversion, files to file; gives a line that says what was done."""
    *mesh_paths, deck_path = paths
    points, tets, faces = (tetgen if len(mesh_paths) == 3 else medit)(*mesh_paths)
    crack = None
    if crack_marker is not None:
        crack = Crack(points, tets, [c for c, marker in faces.values() if marker == crack_marker])
        points, tets = crack.points, crack.tets
    front = crack.front if crack else frozenset()
    nodes, elements, turned = raise_order(points, tets, front)
    write_deck(deck_path, nodes, elements, boundary(elements, faces, crack), front, held)
    said = (
        f"{len(elements)} tetrahedra, {len(points)} nodes became {len(nodes)}, {turned} turned over"
    )
    if crack:
        said += f"; {len(crack.upper)} faces cracked, {len(crack.origin)} corners doubled"
        said += f", {len(front)} on the front"
    return said


def main(arguments):
    options = {}
    try:
        if arguments[:1] == ["--crack"] and len(arguments) in (4, 8):
            options["crack_marker"], arguments = int(arguments[1]), arguments[2:]
        if arguments[:1] == ["--held"] and len(arguments) == 6:
            options["held"], arguments = [float(word) for word in arguments[1:4]], arguments[4:]
    except ValueError:
        arguments = []
    if len(arguments) not in (2, 4):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(convert(*arguments, **options))
    except (BadMesh, OSError, UnicodeDecodeError) as error:
        print(f"t4_to_t10: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

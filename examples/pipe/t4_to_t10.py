#!/usr/bin/env python3
"""Converts a mesh of 4-node tetrahedra, as TetGen writes it, into 10-node ones for CalculiX.

    t4_to_t10.py MESH.node MESH.ele MESH.face MESH.inp

The result is the part of a CalculiX input deck that holds the mesh:

- all nodes (set ALL); corners keep their numbers, mid-side nodes follow;
- all elements, type C3D10 (set SOLID), every one with a positive volume;
- for each boundary marker M of the faces: the nodes on it, mid-side ones too (node set NODES_M),
  and the element faces that make it up (element surface SURFACE_M).

Mid-side nodes stand exactly half way between their corners: sides stay straight. An edge that
several tetrahedra share has one mid-side node. The Python standard library is all it needs.
"""

import sys

# The edges of a tetrahedron in the order of C3D10's mid-side nodes 5 to 10, and its faces S1 to S4
# (CalculiX 2.20 manual, "Ten-node tetrahedral element").
EDGES = ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))
FACES = ((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))

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


def volume6(a, b, c, d):
    """Six times the volume of a tetrahedron; negative if d lies on the wrong side of a, b, c."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    wx, wy, wz = d[0] - a[0], d[1] - a[1], d[2] - a[2]
    return ux * (vy * wz - vz * wy) + uy * (vz * wx - vx * wz) + uz * (vx * wy - vy * wx)


def raise_order(points, tets):
    """Adds mid-side nodes.

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
                nodes[middle] = ((p[0] + q[0]) / 2, (p[1] + q[1]) / 2, (p[2] + q[2]) / 2)
            sides.append(middle)
        elements[number] = tuple(corners) + tuple(sides)
    return nodes, elements, turned


def boundary(elements, faces):
    """The boundary by marker: {marker: (node numbers, [(element, face number 1 to 4)])}.

    `faces` is {number: (three corners, marker)}. A marked face that two elements share lies inside
    and is no boundary.
    """
    wanted = {tuple(sorted(corners)): marker for corners, marker in faces.values()}
    owners = {}
    for number, element in elements.items():
        for index, face in enumerate(FACES, 1):
            key = tuple(sorted((element[face[0]], element[face[1]], element[face[2]])))
            if key in wanted:
                owners.setdefault(key, []).append((number, index))
    if len(owners) != len(wanted):
        lost = next(key for key in wanted if key not in owners)
        raise BadMesh(f"the face {lost} belongs to no tetrahedron")
    edge_of = {frozenset(edge): 4 + k for k, edge in enumerate(EDGES)}
    found = {}
    for key, sides in owners.items():
        if len(sides) > 1:
            continue
        number, index = sides[0]
        element, face = elements[number], FACES[index - 1]
        on_nodes, on_faces = found.setdefault(wanted[key], (set(), []))
        on_faces.append((number, index))
        for k in range(3):
            on_nodes.add(element[face[k]])
            on_nodes.add(element[edge_of[frozenset((face[k], face[(k + 1) % 3]))]])
    return {
        marker: (sorted(found[marker][0]), sorted(found[marker][1])) for marker in sorted(found)
    }


def write_deck(path, nodes, elements, parts):
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
            out.write(f"*NSET, NSET=NODES_{marker}\n")
            for start in range(0, len(on_nodes), PER_LINE):
                out.write(", ".join(map(str, on_nodes[start : start + PER_LINE])) + "\n")
            out.write(f"*SURFACE, NAME=SURFACE_{marker}, TYPE=ELEMENT\n")
            out.writelines(f"{number}, S{index}\n" for number, index in on_faces)


def convert(node_path, element_path, face_path, deck_path):
    """The whole conversion, file to file; gives a line that says what was done."""
    points = {number: values for number, (values, _) in table(node_path, 3, float).items()}
    tets = {number: values for number, (values, _) in table(element_path, 4, int).items()}
    faces = table(face_path, 3, int)
    nodes, elements, turned = raise_order(points, tets)
    write_deck(deck_path, nodes, elements, boundary(elements, faces))
    return (
        f"{len(elements)} tetrahedra, {len(points)} nodes became {len(nodes)}, {turned} turned over"
    )


def main(arguments):
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(convert(*arguments))
    except (BadMesh, OSError, UnicodeDecodeError) as error:
        print(f"t4_to_t10: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

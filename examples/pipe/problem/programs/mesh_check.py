#!/usr/bin/env python3
"""Decides whether a mesh of tetrahedra around a crack is good enough, and which of the crack's triangles are to blame.

Ours; no third party's. The paper's volume mesher gives such a list itself. A triangle of the crack needs refinement if

- a tetrahedron that touches it away from the walls has an angle between two faces below the limit;
- a tetrahedron reaches from it to a wall that the crack does not open to: one layer of elements resolves no ligament;
- one of its inner edges joins two points of the front: its mid-side node could not be doubled.

Without a volume mesh (the mesher refused the surface) all of them do.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from t4_to_t10 import BadMesh, medit

CRACK = 5
FINER = 0.7
"""The side wanted of a triangle that needs refinement, in its own."""


def edges(triangles: np.ndarray) -> np.ndarray:
    """The three edges of each triangle (n, 3, 2), smaller node first."""
    return np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]], axis=2)


def smallest_angle(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """The smallest angle between two faces of each tetrahedron, degrees."""
    at = points[tets]
    normals = []
    for k in range(4):
        a, b, c = (at[:, n] for n in range(4) if n != k)
        normal = np.cross(b - a, c - a)
        inward = np.einsum("nk,nk->n", normal, at[:, k] - a) > 0
        normals.append(np.where(inward[:, None], -normal, normal) / np.linalg.norm(normal, axis=1)[:, None])
    cosines = [-np.einsum("nk,nk->n", normals[i], normals[j]) for i in range(4) for j in range(i)]
    return np.degrees(np.arccos(np.clip(np.max(cosines, axis=0), -1, 1)))


def to_refine(points: np.ndarray, tets: np.ndarray, triangles: np.ndarray, marks: np.ndarray, limit: float):
    """The rows of the crack's triangles to refine, and the smallest angle at the crack."""
    crack = triangles[marks == CRACK]
    walls = triangles[marks != CRACK]
    along = edges(crack)
    every, row, count = np.unique(along.reshape(-1, 2), axis=0, return_inverse=True, return_counts=True)
    on_wall = {tuple(edge) for edge in edges(walls).reshape(-1, 2)}
    mouth = np.array([tuple(edge) in on_wall for edge in every])
    on = np.zeros(len(points), dtype=bool)
    on[crack] = True
    front = np.zeros_like(on)
    front[every[(count == 1) & ~mouth]] = True
    # The crack opens to the walls that its mouth lies on; their marks are those of the triangles there.
    line = {tuple(edge) for edge in every[mouth]}
    of_walls = zip(marks[marks != CRACK], edges(walls), strict=True)
    opened = {mark for mark, three in of_walls if not line.isdisjoint(map(tuple, three))}
    open_wall, other_wall = np.zeros_like(on), np.zeros_like(on)
    opens = np.isin(marks, list(opened))
    open_wall[triangles[opens]] = True
    other_wall[triangles[(marks != CRACK) & ~opens]] = True
    guilty = np.zeros_like(on)
    inside = on & ~open_wall
    touching = tets[inside[tets].any(axis=1)]
    angle = smallest_angle(points, touching)
    bad = (angle < limit) | other_wall[touching].any(axis=1)
    guilty[touching[bad]] = True
    rows = (guilty & inside)[crack].any(axis=1)
    chord = (count == 2) & front[every].all(axis=1)
    rows |= chord[row].reshape(-1, 3).any(axis=1)
    return rows, float(angle.min()) if len(angle) else 180.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("surface", type=Path, help="surface mesh (Medit)")
    parser.add_argument("limit", type=float, help="smallest angle between two faces that is taken, degrees")
    parser.add_argument("refine", type=Path, help="written: x, y, z of the centres, and the side wanted")
    parser.add_argument("rejected", type=Path, help="written: how many")
    parser.add_argument("--volume", type=Path, help="volume mesh (Medit)")
    wanted = parser.parse_args()
    try:
        at, found, faces = medit(wanted.volume or wanted.surface, filled=wanted.volume is not None)
    except (BadMesh, OSError, ValueError) as error:
        print(f"mesh_check: {error}", file=sys.stderr)
        return 1
    points = np.array(list(at.values()))
    triangles = np.array([three for three, _ in faces.values()]) - 1
    marks = np.array([mark for _, mark in faces.values()])
    crack = triangles[marks == CRACK]
    if wanted.volume is None:
        rows = np.ones(len(crack), dtype=bool)
        print("no volume mesh: all triangles of the crack need refinement")
    elif len(crack) == 0:
        rows = np.zeros(0, dtype=bool)
        print("there is no crack")
    else:
        tets = np.array(list(found.values())) - 1
        rows, angle = to_refine(points, tets, triangles, marks, wanted.limit)
        print(
            f"{rows.sum()} of {len(crack)} triangles need refinement; smallest angle at the crack {angle:.2f} degrees"
        )
    corner = points[crack[rows]]
    side = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2).mean(axis=1)
    np.savetxt(wanted.refine, np.column_stack([corner.mean(axis=1), FINER * side]), fmt="%.12g")
    wanted.rejected.write_text(f"{rows.sum()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

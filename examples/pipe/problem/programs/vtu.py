"""VTU files: those of callers (meshio reads them), checked, and the solid's. Ours."""

from pathlib import Path

import meshio
import numpy as np
from calculix import BadDeck, read_mesh, read_results


class BadField(Exception):
    """A file that is not as it must be; the text says which and why."""


def read(path: Path, *, cells: tuple[str, ...] = (), points: tuple[str, ...] = ()) -> meshio.Mesh:
    """Reads a file that has cell data and point data of these names."""
    try:
        mesh = meshio.read(path, "vtu")
    except (meshio.ReadError, OSError):
        raise
    except Exception as error:  # of XML, base64, zlib, NumPy: whatever a broken file leads meshio to
        raise BadField(f"{path.name} is no VTU: {type(error).__name__}: {error}") from None
    for kind, names, found in (("cell", cells, mesh.cell_data), ("point", points, mesh.point_data)):
        for name in names:
            if name not in found:
                raise BadField(f"{path.name} has no {kind} data {name}")
    if not mesh.cells or any(not len(b.data) or b.data.min() < 0 or b.data.max() >= len(mesh.points) for b in mesh.cells):
        raise BadField(f"{path.name}: no cells, or cells of points that are not there")
    return mesh


def write_solid(path: Path, mesh: Path, result: Path) -> None:
    """Writes the solid's mesh with what CalculiX's result file has of it, in SI: displacement (m), stress (Pa; xx, yy, zz,
    xy, yz, xz) and the equivalent one of von Mises, temperature (K) if it has any."""
    solid = read_mesh(mesh)

    def at_nodes(name: str, width: int) -> np.ndarray:
        nodes, values = read_results(result, name, width)
        if not np.array_equal(nodes, solid.nodes):
            raise BadDeck(f"the result has {name} at other nodes than the mesh's")
        return values

    stress = at_nodes("STRESS", 6) * 1e6
    normal, shear = stress[:, :3], stress[:, 3:]
    differences = ((normal - np.roll(normal, 1, axis=1)) ** 2).sum(1)
    data = {
        "displacement": at_nodes("DISP", 3) * 1e-3,
        "stress": stress,
        "von_mises": np.sqrt(differences / 2 + 3 * (shear**2).sum(1)),
    }
    try:
        data["temperature"] = at_nodes("NDTEMP", 1)[:, 0]
    except BadDeck:
        pass  # No heat is in it.
    # Their nodes stand in the same order in both formats.
    cells = [("tetra10", solid.rows(solid.elements[:, 1:]))]
    meshio.write(path, meshio.Mesh(solid.points * 1e-3, cells, point_data=data), "vtu")

"""VTU files of callers: meshio reads them, and they are checked. Ours."""

from pathlib import Path

import meshio


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

#!/usr/bin/env python3
"""Writes a result of every kind: gallery.py N WORD PAUSE"""

import base64
import math
import os
import struct
import sys
import time
import zlib
from pathlib import Path

STEPS = 5


def main(n: int, word: str, pause: float) -> None:
    for step in range(1, STEPS + 1):
        print(f"step {step} of {STEPS}: {word}", flush=True)
        time.sleep(pause)
    side = [at / (n - 1) for at in range(n)]
    wave = [[math.sin(6 * x) * math.cos(4 * y) for x in side] for y in side]
    Path("count").write_text(f"{n * n}\n")
    Path("curve.txt").write_text("".join(f"{math.sin(9 * x)}\n" for x in side))
    Path("wave.npy").write_bytes(npy(wave))
    Path("picture.png").write_bytes(png(wave))
    Path("drawing.svg").write_text(SVG)
    Path("note.html").write_text(f"<script>document.title = 'ran'</script><b>{word}</b> & joint\n")
    Path("table.csv").write_text("place,height\n" + "".join(f"{at},{row[0]}\n" for at, row in enumerate(wave)))
    Path("mesh").mkdir()
    points, cells = grid(side, wave)
    Path("mesh/a.stl").write_bytes(stl(points, cells))
    Path("mesh/b.vtk").write_bytes(vtk(points, cells))
    Path("mesh/c.vtu").write_bytes(vtu(points, cells))
    Path("folder/inner").mkdir(parents=True)
    Path("folder/inner/words.txt").write_text(f"{word}\n")
    os.symlink("inner", "folder/link")


SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 60" width="180" height="120">
<script>document.documentElement.setAttribute("data-ran", "")</script>
<rect width="90" height="60" fill="#346"/><circle cx="45" cy="30" r="20" fill="#fa3"/></svg>
"""


def npy(rows: list[list[float]]) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    numbers = [number for row in rows for number in row]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(numbers)}d", *numbers)


def png(rows: list[list[float]]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    grey = b"".join(b"\0" + bytes(round(127.5 * (number + 1)) for number in row) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(grey)) + chunk(b"IEND", b"")


def grid(side: list[float], wave: list[list[float]]) -> tuple[list[tuple[float, ...]], list[tuple[int, ...]]]:
    """A block of hexahedra: the wave, and the same below it."""
    n = len(side)
    points = [(x, y, level * 0.3 + 0.3 * wave[row][column])
              for level in (0, 1) for row, y in enumerate(side) for column, x in enumerate(side)]
    at = lambda level, row, column: level * n * n + row * n + column
    cells = [tuple(at(level, row + down, column + right) for level in (0, 1) for down, right in ((0, 0), (0, 1), (1, 1), (1, 0)))
             for row in range(n - 1) for column in range(n - 1)]
    return points, cells


def stl(points: list, cells: list) -> bytes:
    triangles = [(a, b, c) for cell in cells for a, b, c in ((cell[4], cell[5], cell[6]), (cell[4], cell[6], cell[7]))]
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *points[a], *points[b], *points[c], 0) for a, b, c in triangles)
    return b"binary STL".ljust(80) + struct.pack("<I", len(triangles)) + facets


def vtk(points: list, cells: list) -> bytes:
    """Legacy, binary."""
    words = [number for cell in cells for number in (8, *cell)]
    flat = [number for point in points for number in point]
    return b"".join([
        b"# vtk DataFile Version 3.0\na wave\nBINARY\nDATASET UNSTRUCTURED_GRID\n",
        f"POINTS {len(points)} double\n".encode(), struct.pack(f">{len(flat)}d", *flat),
        f"\nCELLS {len(cells)} {len(words)}\n".encode(), struct.pack(f">{len(words)}i", *words),
        f"\nCELL_TYPES {len(cells)}\n".encode(), struct.pack(f">{len(cells)}i", *[12] * len(cells)),
        f"\nPOINT_DATA {len(points)}\nSCALARS height float 1\nLOOKUP_TABLE default\n".encode(),
        struct.pack(f">{len(points)}f", *[point[2] for point in points]), b"\n"])


def vtu(points: list, cells: list) -> bytes:
    """XML, compressed, in base64: as meshio writes it."""
    def array(name: str, kind: str, code: str, numbers: list, components: int = 1) -> str:
        data = struct.pack(f"<{len(numbers)}{code}", *numbers)
        packed = zlib.compress(data)
        head = struct.pack("<4I", 1, len(data), len(data), len(packed))
        text = (base64.b64encode(head) + base64.b64encode(packed)).decode()
        return f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{components}" format="binary">{text}</DataArray>'

    flat = [number for point in points for number in point]
    return "".join([
        '<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian" ',
        'header_type="UInt32" compressor="vtkZLibDataCompressor"><UnstructuredGrid>',
        f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{len(cells)}">',
        "<Points>", array("Points", "Float64", "d", flat, 3), "</Points><Cells>",
        array("connectivity", "Int64", "q", [number for cell in cells for number in cell]),
        array("offsets", "Int64", "q", [8 * (at + 1) for at in range(len(cells))]),
        array("types", "UInt8", "B", [12] * len(cells)), "</Cells><PointData>",
        array("height", "Float64", "d", [point[2] for point in points]),
        "</PointData></Piece></UnstructuredGrid></VTKFile>\n"]).encode()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))

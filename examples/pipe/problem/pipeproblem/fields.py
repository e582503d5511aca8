"""Meshes and fields of each step of the crack as VTU, with a collection of ParaView's (`.pvd`) of all of them."""

from pathlib import Path
from typing import Any

import fishplate

from . import crack
from .sites import Located

FOLDER = "fields"


def save(run: fishplate.Run, where: Located, done: list[crack.Step], output: Path) -> Path:
    """Saves what each step had, in SI, and gives the collection: its times are the numbers of the steps, its blocks
    `surface`, `volume`, `solid`, and where gas flows `gas` and `wall`, as the step's last coupling left them."""
    writer = run.service(where.urls["vtu-writer"], **where.settings).by_reference()
    (output / FOLDER).mkdir(exist_ok=True)
    lines = []
    for number, step in enumerate(done, 1):
        for part, (name, grid) in enumerate(grids(writer, step).items()):
            file = f"{FOLDER}/{name}-{number}.vtu"
            grid.save(output / file)
            lines.append(f'    <DataSet timestep="{number}" part="{part}" name="{name}" file="{file}"/>')
    collection = output / "crack.pvd"
    text = "\n".join(['<VTKFile type="Collection" version="0.1">', "  <Collection>", *lines, "  </Collection>", "</VTKFile>"])
    collection.write_text(f"{text}\n", encoding="ascii")
    return collection


def grids(writer: Any, step: crack.Step) -> dict[str, Any]:
    """References to a step's VTU files, by name."""
    found = {"surface": writer(mesh=step.surface).grid, "volume": writer(mesh=step.volume).grid}
    found["solid"] = writer(mesh=step.solid, result=step.result).grid
    if (coupled := step.load.coupled) is not None:
        found |= {"gas": coupled.gas, "wall": coupled.wall}
    return found

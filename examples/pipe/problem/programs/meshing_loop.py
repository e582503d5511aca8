#!/usr/bin/env python3
"""The Meshing Loop of paper 000 (section 2.1): mesh the surface, fill it, send back the triangles that need
refinement, until there are none. Ours; the meshers that it calls are not. A workflow: killed, its service ends the jobs it began;
lost, the next attempt finds them (--reuse)."""

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import fishplate
import numpy as np
from fishplate import errors

SITES = "PIPE_SITES"
"""The variable that names a file with the addresses (HOST:PORT) of the sites, a line each. The loop logs in where it
calls, so a caller can't send it elsewhere."""
PASSES = 8
"""After so many the mesh is given up."""
FROM_OUTSIDE = ("SIGKILL", "SIGTERM")
"""Signals that a mesher does not send itself when it can't go on."""


def loop(run: fishplate.Run, wanted: argparse.Namespace) -> int:
    """Writes the accepted meshes, and gives the number of passes."""
    surface_mesher = run.service(wanted.surface_mesher)
    volume_mesher = run.service(wanted.volume_mesher)
    mesh_check = run.service(wanted.mesh_check)
    pipe = {name: getattr(wanted, name) for name in ("inner", "outer", "bend", "angle", "size", "crack_size")}
    refine = np.empty((0, 4))
    for count in range(1, PASSES + 1):
        print(f"pass {count} of {PASSES}", flush=True)
        surface = surface_mesher.by_reference()(
            passages=wanted.holes,
            passage_radius=wanted.hole_radius,
            front=np.loadtxt(wanted.front, ndmin=2),
            refine=refine if len(refine) else None,
            **pipe,
        ).surface
        volume = None
        try:
            volume = volume_mesher.by_reference()(surface=surface, volume=wanted.tet_volume).mesh
        except (errors.ProgramFailed, errors.ProgramKilled) as refused:
            if getattr(refused, "signal", None) in FROM_OUTSIDE:
                raise
            print(f"the volume mesher refused the surface: {refused}", flush=True)
        checked = mesh_check(surface=surface, volume=volume, angle=wanted.least_angle)
        run.progress("triangles to refine", checked.rejected)
        print(f"{checked.rejected} triangles need refinement", flush=True)
        if checked.rejected == 0 and volume is not None:
            surface.save(wanted.surface)
            volume.save(wanted.volume)
            return count
        refine = np.vstack([refine, checked.refine])
    raise RuntimeError(f"the mesh was not accepted in {PASSES} passes")


def refuse_strangers(wanted: argparse.Namespace) -> None:
    """A ValueError if a service that is to be called is at none of the sites."""
    told = os.environ.get(SITES)
    if not told:
        raise ValueError(f"{SITES} is not set: it names the file with the sites' addresses")
    addresses = Path(told).read_text().split()
    for name in ("surface_mesher", "volume_mesher", "mesh_check"):
        url = urlsplit(getattr(wanted, name))
        if url.scheme != "https" or url.netloc not in addresses:
            raise ValueError(f"{name}: {url.scheme}://{url.netloc} is none of the sites; https at one of them wanted")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("surface_mesher", "volume_mesher", "mesh_check"):
        parser.add_argument(name, help="its URL")
    parser.add_argument("front", type=Path, help="x, y of the crack's front a line")
    for name in ("surface", "volume", "passes", "report"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="written")
    for name in ("inner", "outer", "bend", "angle", "hole-radius", "size", "crack-size", "tet-volume", "least-angle"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--holes", type=int, required=True)
    parser.add_argument("--reuse", action="store_true", help="take results of earlier calls, such as a lost attempt's")
    wanted = parser.parse_args()
    try:
        refuse_strangers(wanted)
        with fishplate.Run("meshing-loop", reuse=wanted.reuse, progress=False) as run:
            passes = loop(run, wanted)
            run.report(wanted.report)
    except (fishplate.Error, RuntimeError, OSError, ValueError) as error:
        print(f"meshing_loop: {error}", file=sys.stderr)
        return 1
    wanted.passes.write_text(f"{passes}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

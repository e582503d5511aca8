"""The faces for people and tools: OGC API - Processes and the pages."""

import face_calls
import job_list
import painting
import program_faces
import watching
from place import Place
from tools import Tools

PARTS = ("calls", "program", "list", "page", "viewers")


def measure(tools: Tools, place: Place, only: list[str], quick: bool) -> dict:
    """Each part, or some of them; within one its sides take turns."""
    found = {}
    for name in only or PARTS:
        print(f"  {name}", flush=True)
        found[name] = part(name, tools, place, quick)
    return found


def part(name: str, tools: Tools, place: Place, quick: bool) -> dict:
    match name:
        case "calls":
            return face_calls.measure(place, *((2, 1) if quick else (8, 3)))
        case "program":
            return program_faces.measure(tools, *((1, 2) if quick else (6, 3)))
        case "list":
            return job_list.measure(tools, *((1, 1000) if quick else (10, 10_000)))
        case "page":
            return painting.measure(tools, place, 2 if quick else 12)
        case _:
            return watching.measure(tools, *(([100], 3) if quick else ([1000, 10_000], 32)))

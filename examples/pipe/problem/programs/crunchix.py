#!/usr/bin/env python3
"""Runs CalculiX CrunchiX on job.inp here, and sees to two things that it does not. Ours; ccx itself is unmodified.

A deck comes from a caller, and its cards name files (*INCLUDE, *SUBMODEL, *VIEWFACTOR ...), which ccx would read wherever
they are. Only names without a folder are let through: what was staged. The result, job.frd, says when it was made: those
lines are blanked, so that the same call gives the same bytes.
"""

import re
import subprocess
import sys
from pathlib import Path

JOB = "job"
LONGEST_LINE = 1000
"""Bytes; ccx (2.20) reads a longer one, from 1,319 on, as several lines, and so a comment's end as a card."""
REFUSED = {b"/": "files are named without a folder", b"@": "materials of shared libraries are not taken"}
MADE = re.compile(rb"    1U(DATE|TIME)")


class BadDeck(Exception):
    """A deck that may not be run; the text says which line, and why."""


def check(path: Path) -> None:
    """Raises `BadDeck` if a line could make ccx read what lies outside of this folder."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if len(line) > LONGEST_LINE:
                raise BadDeck(f"{path}:{number}: a line of {len(line)} bytes; at most {LONGEST_LINE} are taken")
            for sign, why in REFUSED.items():
                if sign in line and not line.startswith(b"**"):
                    raise BadDeck(f"{path}:{number}: {sign.decode()} outside of a comment: {why}")


def blank_times(path: Path) -> None:
    """Writes blanks over what a result's head tells of date and time."""
    with path.open("r+b") as file:
        while (line := file.readline()).startswith(b"    1"):
            if MADE.match(line):
                file.seek(-len(line), 1)
                file.write(line[:10].ljust(len(line) - 1) + b"\n")


def main() -> int:
    try:
        for path in sorted(Path().glob("*.inp")):
            check(path)
    except BadDeck as error:
        print(f"crunchix: {error}", file=sys.stderr)
        return 2
    code = subprocess.run(["ccx", "-i", JOB], check=False).returncode
    result = Path(f"{JOB}.frd")
    if result.exists():
        blank_times(result)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

"""CalculiX behind its service, ccx itself: what its decks may read, and what its results are made of."""

import os
import time
import tomllib
from pathlib import Path

import pytest
from crunchix import LONGEST_LINE
from pipedemo import process
from pipeproblem.validation import PROBLEM

DECK = """*NODE, NSET=ALL
1, 0, 0, 0
2, 1, 0, 0
3, 0, 1, 0
4, 0, 0, 1
*ELEMENT, TYPE=C3D4, ELSET=SOLID
1, 1, 2, 3, 4
*MATERIAL, NAME=WALL
*ELASTIC
1000., 0.3
*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL
*STEP
*STATIC
*BOUNDARY
1, 1, 3
2, 1, 3
3, 1, 3
*CLOAD
4, 3, 1.
*NODE FILE
U
*END STEP
"""


def solve(folder: Path, **files: str) -> int:
    """Runs the service's command on these files; its exit code."""
    site = PROBLEM / "sites" / "solid"
    service = tomllib.loads((site / "mechanical.toml").read_text())
    for name, text in files.items():
        (folder / f"{name}.inp").write_text(text)
    (command,) = service["command"]
    environment = os.environ | service["environment"]
    return process.run([str(site / command)], folder, folder / "stdout", folder / "stderr", environment)


@pytest.fixture
def secret(tmp_path_factory) -> Path:
    """What a caller has no business to read: more of the deck, so that ccx would take it."""
    path = tmp_path_factory.mktemp("site") / "more"
    path.write_text("*CLOAD\n4, 1, 7.\n")
    return path


@pytest.mark.parametrize(
    "card",
    ["*INCLUDE, INPUT={}", '*include,input="{}"', "* IN CLUDE, IN PUT = {}", "*INCLUDE,\nINPUT={}", "*SUBMODEL, INPUT={}"],
)
@pytest.mark.parametrize("part", ["job", "mesh"])
def test_a_deck_reads_no_file_of_another_folder(tmp_path, secret, card, part):
    card = card.format(secret)
    files = {"job": DECK.replace("*CLOAD", f"{card}\n*CLOAD")}
    if part == "mesh":
        files = {"job": DECK.replace("*CLOAD", "*INCLUDE, INPUT=mesh.inp\n*CLOAD"), "mesh": f"{card}\n"}
    assert solve(tmp_path, **files) == 2
    assert f"{part}.inp:" in (tmp_path / "stderr").read_text()
    assert "without a folder" in (tmp_path / "stderr").read_text()
    assert not (tmp_path / "job.frd").exists()


def test_a_comment_is_no_way_around(tmp_path, secret):
    """ccx takes a line in pieces: the second one of this is no comment."""
    hidden = "**".ljust(1319, "x") + f"*INCLUDE, INPUT={secret}"
    assert solve(tmp_path, job=DECK.replace("*CLOAD", f"{hidden}\n*CLOAD")) == 2
    assert f"at most {LONGEST_LINE} are taken" in (tmp_path / "stderr").read_text()


def test_what_lies_beside_the_deck_is_read(tmp_path):
    text = DECK.replace("*CLOAD\n4, 3, 1.", "** mm, N/mm2\n*INCLUDE, INPUT=pressure.inp")
    assert solve(tmp_path, job=text, pressure="*CLOAD\n4, 3, 1.\n") == 0
    assert " -4  DISP" in (tmp_path / "job.frd").read_text()


def test_the_same_deck_gives_the_same_bytes(tmp_path):
    """Whenever it is solved: a second passes between the two, for which ccx has another time."""
    results = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        assert solve(folder, job=DECK) == 0
        results.append((folder / "job.frd").read_bytes())
        second = int(time.time())
        while int(time.time()) == second:
            time.sleep(0.01)
    assert results[0] == results[1]
    assert b"    1UDATE" in results[0] and b"DISP" in results[0]

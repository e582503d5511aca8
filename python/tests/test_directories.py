"""Directories as values."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from conftest import Services

import fishplate


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder = tmp_path / "case"
    (folder / "0").mkdir(parents=True)
    (folder / "0/U").write_text("velocity")
    (folder / "control").write_text("control")
    return folder


def test_a_directory_goes_and_another_comes(service: Services, case: Path, tmp_path: Path) -> None:
    result = service("tree")(case=case)
    assert result.names.split() == ["./0/U", "./control"]
    made = result.results.unpack(tmp_path / "results")
    assert (made / "control").read_text() == "control"
    assert (made / "deep/made.txt").read_text() == "made\n"
    # What is there already is not touched.
    with pytest.raises(OSError, match="not empty"):
        result.results.unpack(tmp_path / "case")
    assert not (case / "deep").exists()
    # As it came it goes on.
    again = service("tree")(case=result.results)
    assert again.names.split() == ["./control", "./deep/made.txt"]


def test_an_archive_is_a_directory_too(service: Services, case: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "case.tar", "w") as archive:
        archive.add(case / "control", "control")
    assert service("tree")(case=tmp_path / "case.tar").names.split() == ["./control"]


def test_a_file_is_no_directory_and_a_directory_no_file(service: Services, case: Path) -> None:
    with pytest.raises(OSError):
        service("echo")(changed=case)
    with pytest.raises(fishplate.Fault):
        service("tree")(case=b"this is no archive" * 100)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import Starts
from server import EXAMPLES, SERVICES, Hosted

import fishplate

NAMES = [
    "arithmetic/arithmetic.toml",
    "files/gzip.toml",
    "files/sort.toml",
    "arrays/smooth.toml",
    "arrays/transpose.toml",
    "progress/countdown.toml",
]


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """One server with the repository's examples and this directory's services."""
    services = [EXAMPLES / name for name in NAMES] + sorted(SERVICES.glob("*.toml"))
    with Hosted(tmp_path_factory.mktemp("server"), services, "--allow-private") as server:
        yield server


class Services:
    """The server's services, each connected once."""

    def __init__(self, hosted: Hosted) -> None:
        self.urls = hosted.urls
        self.known: dict[str, fishplate.Service] = {}

    def __call__(self, name: str) -> fishplate.Service:
        if name not in self.known:
            self.known[name] = fishplate.Service(self.urls[name])
        return self.known[name]


@pytest.fixture(scope="session")
def service(hosted: Hosted) -> Services:
    return Services(hosted)


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A server with programs that count their starts."""
    services = [SERVICES / "tally.toml", SERVICES / "fails.toml"]
    services += [EXAMPLES / name for name in ("files/sort.toml", "files/gzip.toml", "arrays/smooth.toml")]
    with Hosted(tmp_path_factory.mktemp("tally"), services, "--allow-private") as server:
        yield server


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """Another site."""
    services = [SERVICES / "tally.toml", EXAMPLES / "files/gzip.toml"]
    with Hosted(tmp_path_factory.mktemp("second"), services, "--allow-private") as server:
        yield server


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path / "starts")

"""A server that asks who calls."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server import BINARY, EXAMPLES, Hosted

import fishplate
from fishplate import errors


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A server with the user ada, whose password is lovelace."""
    folder = tmp_path_factory.mktemp("asking")
    with Hosted(folder, [EXAMPLES / "arithmetic/arithmetic.toml"], "--login") as server:
        operate(server, "user", "add", "ada", "--password-stdin", told="lovelace")
        yield server


def operate(server: Hosted, *words: str, told: str = "") -> str:
    command = [str(BINARY), *words, "--data", str(server.data)]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What this machine's user has kept is none of the tests' business."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("FISHPLATE_TOKEN", "FISHPLATE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)


def test_a_token_or_a_password_logs_in(asking: Hosted, tmp_path: Path) -> None:
    token = operate(asking, "token", "create", "--user", "robot")
    (tmp_path / "file").write_text("contents")
    for auth in (token, ("ada", "lovelace")):
        server = fishplate.Server(asking.url, auth=auth)
        assert server["arithmetic-test"](x=1, y=2).result == 3
        with server.session() as session:
            assert session["arithmetic-test"](x=2, y=2).result == 4
        assert server.put(tmp_path / "file").bytes() == b"contents"


@pytest.mark.parametrize("auth", [None, "fishplate_wrong", ("ada", "wrong")])
def test_who_is_not_known_gets_a_fault_of_its_own(
    asking: Hosted, auth: str | tuple[str, str] | None, tmp_path: Path
) -> None:
    with pytest.raises(errors.Unauthenticated) as raised:
        fishplate.Service(asking.urls["arithmetic-test"], auth=auth)
    assert "wrong" not in str(raised.value).replace("wrong password", "")
    (tmp_path / "file").write_text("contents")
    with pytest.raises(errors.Unauthenticated):
        fishplate.put(tmp_path / "file", asking.url, auth=auth)


def test_a_token_for_another_service_is_forbidden(asking: Hosted) -> None:
    token = operate(asking, "token", "create", "--user", "robot", "--service", "other")
    with pytest.raises(errors.Forbidden):
        fishplate.Service(asking.urls["arithmetic-test"], auth=token)


def test_what_is_kept_logs_in(asking: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    url = asking.urls["arithmetic-test"]
    login = [str(BINARY), "login", asking.url, "--user", "ada", "--password-stdin"]
    subprocess.run(login, input="lovelace", text=True, check=True, capture_output=True)
    assert fishplate.Service(url)(x=1, y=2).result == 3
    # The login goes before it.
    monkeypatch.setenv("FISHPLATE_TOKEN", "fishplate_wrong")
    assert fishplate.Service(url)(x=1, y=2).result == 3


def test_the_environment_counts_at_each_use(
    asking: Hosted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("contents")
    with pytest.raises(errors.Unauthenticated):
        fishplate.put(tmp_path / "file", asking.url)
    with pytest.raises(errors.Unauthenticated):
        list(fishplate.Server(asking.url))
    token = operate(asking, "token", "create", "--user", "robot")
    monkeypatch.setenv("FISHPLATE_TOKEN", token)
    assert fishplate.put(tmp_path / "file", asking.url).bytes() == b"contents"
    assert "arithmetic-test" in list(fishplate.Server(asking.url))
    monkeypatch.setenv("FISHPLATE_URL", "http://127.0.0.1:1")
    with pytest.raises(errors.Unauthenticated):
        fishplate.put(tmp_path / "file", asking.url)


def test_a_run_reaches_what_was_found_as_it_was_found(asking: Hosted, tmp_path: Path) -> None:
    auth = ("ada", "lovelace")
    found = fishplate.find("arithmetic-test", servers=[asking.url], auth=auth)
    with fishplate.Run("found", tmp_path / "run") as run:
        assert run.service(found)(x=1, y=2).result == 3
        assert run.service(found[0].by_reference())(x=2, y=2).result == 4
        with pytest.raises(errors.Unauthenticated):
            run.service(found, auth=("ada", "wrong"))(x=3, y=3)
        # `run.find` gives URLs, because a journal keeps no passwords.
        (url,) = run.find("arithmetic-test", [asking.url], auth=auth)
        assert run.service(url, auth=auth)(x=4, y=4).result == 8

"""Services found by what they are, on several servers, and how two differ."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from runs import Starts, following
from server import Hosted

import fishplate
from fishplate import errors


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A server whose `tally` takes something else."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "tally.toml").write_text('command = "/bin/echo [in val x:double] > [out file next:int]"\n[input.x]\nunit = "mm"\n')
    with Hosted(folder, [folder / "tally.toml"], "--allow-private") as server:
        yield server


@pytest.fixture
def gone() -> str:
    """A server that is away."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{nobody.getsockname()[1]}"


def test_services_are_found_by_name_namespace_and_interface(
    tally: Hosted, second: Hosted, odd: Hosted, gone: str
) -> None:
    servers = [gone, tally.url, odd.url, second.url]
    both = [tally.urls["tally"], second.urls["tally"]]
    for wanted in ("tally", "urn:fishplate:tally", second.urls["tally"]):
        assert [service.url for service in fishplate.find(wanted, servers=servers)] == both, wanted
    assert [service.name for service in fishplate.find("sort", tally.url)] == ["sort"]
    # Whoever calls the one cannot call the other.
    told = rf"no service of .* is {both[0]}; {odd.urls['tally']}: .*call: input x: type: int / double; .*; .*{gone[7:]}"
    with pytest.raises(errors.NotFound, match=told):
        fishplate.find(both[0], servers=[gone, odd.url])
    with pytest.raises(errors.NotFound, match="no service of .* is nobody"):
        fishplate.find("nobody", servers=[tally.url])
    with pytest.raises(errors.Unreachable):
        fishplate.find("tally", servers=[gone])
    with pytest.raises(ValueError, match="at least one server"):
        fishplate.find("tally", servers=[])


@pytest.mark.parametrize(("status", "is_away"), [(503, True), (None, True), (403, False), (404, False), (500, None)])
def test_a_server_whose_services_do_not_answer_is_passed_over(
    tally: Hosted, second: Hosted, status: int | None, is_away: bool | None
) -> None:
    ended = threading.Event()

    class Half(BaseHTTPRequestHandler):
        """It lists services, and does not describe them."""

        def do_GET(self) -> None:
            if self.path == "/":
                with urlopen(Request(tally.url, headers={"Accept": "application/json"})) as answer:
                    told = answer.read()
                self.send_response(200)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)
            elif status is None:
                ended.wait()
            else:
                self.send_error(status)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Half) as half:
        threading.Thread(target=half.serve_forever, daemon=True).start()
        try:
            servers, timeout = [f"http://127.0.0.1:{half.server_port}", second.url], 5.0 if status else 1.0
            if is_away is None:
                with pytest.raises(errors.NotUnderstood):
                    fishplate.find("tally", servers=servers, timeout=timeout)
                return
            found = fishplate.find("tally", servers=servers, timeout=timeout)
            assert [service.url for service in found] == [second.urls["tally"]]
            expected = (errors.Unreachable, errors.NotUnderstood, errors.Timeout) if is_away else errors.NotFound
            with pytest.raises(expected):
                fishplate.find("tally", servers=servers[:1], timeout=timeout)
        finally:
            ended.set()
            half.shutdown()


def test_no_servers_have_no_services() -> None:
    assert fishplate._native.find("tally", []).wait() == ([], [])


def test_two_interfaces_are_compared(tally: Hosted, second: Hosted, odd: Hosted) -> None:
    assert fishplate.diff(tally.urls["tally"], second.urls["tally"]) == []
    found = fishplate.diff(fishplate.Service(odd.urls["tally"]), tally.urls["tally"])
    (unit,) = (one for one in found if one.what == "unit")
    assert (unit.operation, unit.parameter, unit.first, unit.second, unit.breaks) == ("call", "input x", "mm", "", True)
    assert str(unit) == "call: input x: unit: mm / "
    (new,) = (one for one in found if one.parameter == "input pause")
    assert (new.first, new.second, new.breaks) == ("not there", "there", False)


def test_a_run_goes_on_with_what_it_found(starts: Starts, tmp_path: Path, tally: Hosted, gone: str) -> None:
    def work(servers: list[str]) -> int:
        with fishplate.Run("found", tmp_path / "run") as run:
            service = run.service(run.find("tally", servers=servers))
            return int(service(starts=starts.path, tag="x", x=1).next)

    with fishplate.Run("object", tmp_path / "object") as run:
        service = run.service(fishplate.find("urn:fishplate:tally", servers=[tally.url]))
        assert service(starts=starts.path, tag="o", x=1).next == following(1)
    assert work([tally.url]) == work([gone]) == following(1)
    assert starts() == {"x": 1, "o": 1}

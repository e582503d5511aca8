"""The six sites: servers with data directories, addresses, and if they can be had users of their own, and TLS between them.

What a site makes stays there; another fetches it by reference, over TLS, with a certificate of an authority that is
made here. Callers log in."""

import os
import pwd
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent))

from pipedemo.process import Failed  # noqa: E402
from pipedemo.server import GONE_WITHIN, Server  # noqa: E402

FOLDER = HERE.parent / "sites"
NAMES = ("geometry", "meshing", "flow-mesh", "flow", "solid", "fracture")
USER = "workflow"
FIRST_UID = 59_841
"""Users of the sites, one after the other, if we are root: far up among those that Debian leaves to a machine's
administrator (policy 9.2.2). They have no names."""
DAYS = "3650"
"""For which certificates are good: longer than anybody goes on with a run."""


class Located(Protocol):
    """What a workflow has to know of the sites."""

    @property
    def urls(self) -> dict[str, str]:
        """Of all services, by name."""

    @property
    def settings(self) -> dict[str, Any]:
        """How they are called: `run.service(url, **settings)`."""


@dataclass(frozen=True)
class Place:
    """Where a site's server runs: what it listens at, and the words that lead its command there."""

    address: str = "127.0.0.1"
    leading: tuple[str, ...] = ()


def openssl(*words: object, text: str | None = None) -> None:
    """Runs openssl."""
    done = subprocess.run(["openssl", *map(str, words)], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"openssl {words[0]} failed: {done.stderr.strip()}")


def make_authority(folder: Path) -> Path:
    """An authority for this run; its certificate."""
    certificate = folder / "ca.pem"
    if not certificate.exists():
        new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS)
        subject = ("-subj", "/CN=Authority of the pipe's sites")
        openssl("req", "-x509", *new, "-keyout", folder / "ca.key", "-out", certificate, *subject)
    return certificate


def make_certificate(authority: Path, site: Path, address: str) -> list[str]:
    """A site's certificate for its address, and the options that a server takes it with."""
    key, request, certificate = site / "key.pem", site / "request.pem", site / "cert.pem"
    if not certificate.exists():
        new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", *new, "-keyout", key, "-out", request, "-subj", f"/CN={site.name}")
        extensions = site / "extensions"
        names = f"subjectAltName=DNS:localhost,IP:{address}"
        extensions.write_text(f"{names}\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
        signed = ("-CA", authority, "-CAkey", authority.with_suffix(".key"), "-CAcreateserial", "-days", DAYS)
        openssl("x509", "-req", "-in", request, "-out", certificate, "-extfile", extensions, *signed)
    return ["--tls-cert", str(certificate), "--tls-key", str(key)]


def closed_to_others(*paths: Path) -> str:
    """What another user needs and can't get at, and what to do; an empty text if there is nothing."""
    for path in paths:
        for one in (path.absolute(), path.resolve()):
            for part in (one, *one.parents):
                wanted = "enter" if part.is_dir() else "read"
                if not part.stat().st_mode & (0o001 if wanted == "enter" else 0o004):
                    mode = "x" if wanted == "enter" else "r"
                    told = f"`chmod o+{mode} {part}`, or take a project and a Python that others may read"
                    return f"another user can't {wanted} {part}, for {path}: {told}"
    return ""


def can_have_users(binary: Path, folder: Path, environment: dict[str, str]) -> str:
    """Why sites can't have users of their own and what to do about it, or an empty text."""
    if os.geteuid() != 0:
        return "only root can give them"
    for number in range(len(NAMES)):
        try:
            return f"{FIRST_UID + number} is {pwd.getpwuid(FIRST_UID + number).pw_name} already"
        except KeyError:
            pass
    # What a site runs as another user: the server, a program of ours with its Python and libraries, Gmsh.
    import fishplate

    used = [folder, binary, Path(sys.executable), Path(fishplate.__file__), Path(sys.prefix) / "lib", FOLDER]
    if closed := closed_to_others(*used):
        return closed
    python = ["python3", "-c", "import fishplate, meshio, numpy, scipy"]
    for words in ([str(binary), "--version"], python, ["gmsh", "--version"]):
        try:
            tried = subprocess.run(
                words, user=FIRST_UID, group=FIRST_UID, extra_groups=[], env=environment, cwd="/", capture_output=True
            )
        except OSError as error:
            return f"{words[0]} cannot be started by another user: {error.strerror}"
        if tried.returncode:
            said = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return f"{' '.join(words)} does not work for another user: {said}"
    return ""


def end_left_over(site: Path) -> None:
    """Ends a site's server whose workflow was killed (-9); jobs that run go on, the next server finds them."""
    try:
        pid = int((site / "pid").read_text())
        # From here on the process is meant, whoever has its number later.
        handle = os.pidfd_open(pid)
    except (OSError, ValueError):
        return  # there is none
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"serve" not in words or str(site / "data").encode() not in words:
            return
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], GONE_WITHIN)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [])
    except (FileNotFoundError, ProcessLookupError):
        pass  # gone meanwhile
    finally:
        os.close(handle)


class Sites:
    """The servers of all sites; use it in a `with`. The folder may be one of before: all is as it was then."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        environment: dict[str, str],
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
        names: tuple[str, ...] = NAMES,
        places: Mapping[str, Place] = {},
    ):
        """`places` of sites by name; all others are at the loopback address."""
        self.binary = binary
        self.folder = folder.resolve()
        self.environment = environment
        self.say = say
        self.servers: dict[str, Server] = {}
        self.names = names
        self.places = {name: places.get(name, Place()) for name in names}
        self.stack = ExitStack()

    def __enter__(self) -> "Sites":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.addresses.touch()
        self.authority = make_authority(self.folder)
        self.password = self.make_password()
        problem = can_have_users(self.binary, self.folder, self.environment)
        if problem:
            self.say(f"the sites run as this user: {problem}")
        try:
            for number, name in enumerate(self.names):
                server = self.server(name, None if problem else FIRST_UID + number)
                self.servers[name] = self.stack.enter_context(server)
                self.note(name)
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def note(self, name: str) -> None:
        """Keeps where a site's server is, for the next one and for workflows that are services."""
        server = self.servers[name]
        (self.folder / name / "address").write_text(server.listen)
        known = self.addresses.read_text().split()
        self.addresses.write_text("".join(f"{one}\n" for one in dict.fromkeys([*known, server.listen])))
        (self.folder / name / "pid").write_text(f"{server.process.pid}\n")

    def start_again(self, name: str) -> None:
        """A site's server that has been killed, where it was; its jobs have gone on."""
        server = self.servers[name]
        server.process.wait()
        server.process.stdout.close()
        server.__enter__()
        self.note(name)

    @property
    def addresses(self) -> Path:
        """The file with the addresses of the sites: a workflow that is a service calls no others."""
        return self.folder / "addresses"

    @property
    def urls(self) -> dict[str, str]:
        """Of all services, by name."""
        return {name: url for server in self.servers.values() for name, url in server.urls.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """How they are called: `run.service(url, **settings)`."""
        return {"ca_file": self.authority, "auth": (USER, self.password)}

    def make_password(self) -> str:
        """The one that callers log in with, at all sites."""
        path = self.folder / "password"
        if not path.exists():
            path.touch(0o600)
            path.write_text(secrets.token_urlsafe(24))
        return path.read_text()

    def server(self, name: str, user: int | None) -> Server:
        """A site's server, with all that it needs in its folder."""
        site = self.folder / name
        (site / "data").mkdir(parents=True, exist_ok=True)
        end_left_over(site)
        # A workflow that is a service logs in at the other sites by this.
        login = site / ".netrc"
        login.touch(0o600)
        addresses = list(dict.fromkeys(place.address for place in self.places.values()))
        login.write_text("".join(f"machine {address} login {USER} password {self.password}\n" for address in addresses))
        # The authority is the only one that is trusted.
        own = {"SSL_CERT_FILE": str(self.authority), "HOME": str(site), "FISHPLATE_CA_FILE": str(self.authority)}
        own["PIPE_SITES"] = str(self.addresses)
        place = self.places[name]
        options = [*make_certificate(self.authority, site, place.address), "--login"]
        for number, address in enumerate(addresses):
            options += ["--allow-network", f"sites-{number}={address}/32"]
        if not (site / "data" / "users").exists():
            words = [self.binary, "user", "add", USER, "--password-stdin", "--data", site / "data"]
            done = subprocess.run(words, input=self.password, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Failed(f"no user for site {name}: {done.stderr.strip()}")
        leading = list(place.leading)
        if user is not None:
            for path in (site, *site.rglob("*")):
                os.chown(path, user, user)
            leading += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        services = sorted((FOLDER / name).glob("*.toml"))
        server = Server(self.binary, services, site, self.environment | own, options, leading, place.address)
        # Started again, a site is where runs and references have known it.
        if (site / "address").exists():
            server.listen = (site / "address").read_text()
        return server

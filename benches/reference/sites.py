"""The two ends of a transfer, and the peers' servers at the far one.

Near is where the client and the data are; far is who gets the data. On loopback both are one machine;
across a link each is in a network namespace of its own.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from drivers import end_with_us
from link import CLIENT as NEAR
from link import SERVER as FAR
from server import Server, end_supervisors
from tools import Tools, found

# Takes a file and does nothing with it: all that is measured is how it came.
TAKE = 'name = "take"\ncommand = "/bin/true [in file data:raw]"\n'
PORT_PATIENCE = 10.0
POOL = "200GB"


class Missing(Exception):
    """A peer that can't be had here."""


@dataclass
class Ends:
    """Addresses of both ends, and what a command is led by to run at one."""

    name: str = "loopback"
    told: str = "loopback"
    near: str = "127.0.0.1"
    far: str = "127.0.0.1"
    in_near: list[str] = field(default_factory=list)
    in_far: list[str] = field(default_factory=list)

    @classmethod
    def across(cls, network) -> "Ends":
        return cls(network.name, network.told, NEAR, FAR, network.in_client, network.in_server)


@contextlib.contextmanager
def site(tools: Tools, address: str, inside: list[str], description: str = TAKE):
    """A Fishplate server with its defaults, which may fetch from the other site: that is private here."""
    place = Path(tempfile.mkdtemp(prefix="site-", dir=tools.scratch))
    file, data = place / "take.toml", place / "data"
    file.write_text(description)
    data.mkdir()
    with open(place / "log", "w+") as log:
        command = [*inside, tools.binary, "serve", file, "--listen", f"{address}:0", "--data", data,
                   "--log", "warn", "--allow-private", "--open", "--limit", f"pool_quota={POOL}", "--limit",
                   f"owner_disk={POOL}"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                   text=True, preexec_fn=end_with_us)
        try:
            words = process.stdout.readline().split()
            if len(words) != 2:
                log.seek(0)
                sys.exit(f"bench: the server did not start:\n{log.read()}")
            yield Server(process.pid, words[1], data)
        finally:
            process.terminate()
            process.wait(timeout=30)
            end_supervisors(data)
            shutil.rmtree(place, ignore_errors=True)


def put(tools: Tools, ends: Ends, file: Path, server: Server) -> str:
    """The reference of a file that was brought to a server."""
    base = server.url.rpartition("/")[0]
    done = subprocess.run([*ends.in_near, tools.binary, "put", file, "--to", base, "--json"],
                          check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["url"]


def empty_pool(tools: Tools, server: Server) -> None:
    """Removes all that nobody uses."""
    listed = subprocess.run([tools.binary, "pool", "list", "--data", server.data, "--json"], check=True,
                            stdout=subprocess.PIPE, text=True)
    digests = [entry["digest"] for entry in json.loads(listed.stdout)["objects"]]
    if digests:
        subprocess.run([tools.binary, "pool", "remove", "--force", "--data", server.data, *digests], check=True,
                       stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def peer(command: list, address: str, port: int, inside: list[str], log: Path):
    """A peer's server that listens on this port."""
    with open(log, "w+") as said:
        process = subprocess.Popen([*inside, *map(str, command)], stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, preexec_fn=end_with_us)
        try:
            for _ in range(int(PORT_PATIENCE / 0.05)):
                if process.poll() is not None or listens(address, port, inside):
                    break
                time.sleep(0.05)
            if process.poll() is not None:
                said.seek(0)
                raise Missing(said.read().strip()[-300:] or f"{command[0]} ended")
            yield
        finally:
            process.terminate()
            process.wait(timeout=10)


def listens(address: str, port: int, inside: list[str]) -> bool:
    if inside:
        code = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
        return subprocess.run([*inside, sys.executable, "-c", code], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0
    with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
        return True
    return False


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def nginx(tools: Tools, ends: Ends, root: Path, certificate: tuple[Path, Path] | None = None):
    """nginx at the near end: who has the data serves it. With a certificate and its key, over TLS."""
    place, port = Path(tempfile.mkdtemp(prefix="nginx-", dir=tools.scratch)), free_port()
    temporary = "\n".join(f"{kind}_temp_path {place}/{kind};"
                          for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    tls = "ssl_certificate {}; ssl_certificate_key {};".format(*certificate) if certificate else ""
    (place / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log; "
        f"user {os.environ.get('USER', 'root')}; events {{ worker_connections 64; }} "
        f"http {{ access_log off; sendfile on; {temporary} "
        f"keepalive_requests 100000; server {{ listen {ends.near}:{port}{' ssl' if tls else ''}; {tls} "
        f"root {root}; }} }}")
    command = [tools.nginx(), "-p", place, "-c", place / "nginx.conf", "-e", place / "error.log"]
    with peer(command, ends.near, port, ends.in_near, place / "log"):
        yield f"http{'s' if tls else ''}://{ends.near}:{port}"


@contextlib.contextmanager
def rsync(tools: Tools, ends: Ends, root: Path):
    """rsync's own server at the near end."""
    program, port = installed("rsync"), free_port()
    place = Path(tempfile.mkdtemp(prefix="rsyncd-", dir=tools.scratch))
    (place / "conf").write_text(f"pid file = {place}/pid\nuse chroot = no\n"
                                f"[data]\npath = {root}\nread only = yes\nuid = root\ngid = root\n")
    command = [program, "--daemon", "--no-detach", f"--config={place / 'conf'}",
               f"--address={ends.near}", f"--port={port}"]
    with peer(command, ends.near, port, ends.in_near, place / "log"):
        yield f"rsync://{ends.near}:{port}/data"


@contextlib.contextmanager
def sshd(tools: Tools, ends: Ends):
    """An SSH server at the near end, with keys of its own; gives what scp is led by, and the host."""
    daemon, scp, keygen = (installed(name) for name in ("sshd", "scp", "ssh-keygen"))
    place, port = Path(tempfile.mkdtemp(prefix="sshd-", dir=tools.scratch)), free_port()
    for key in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
    (place / "authorized").write_bytes((place / "user.pub").read_bytes())
    (place / "config").write_text(
        f"ListenAddress {ends.near}:{port}\nHostKey {place}/host\nPidFile {place}/pid\n"
        f"AuthorizedKeysFile {place}/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
        f"PasswordAuthentication no\nSubsystem sftp internal-sftp\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    with peer([daemon, "-D", "-e", "-f", place / "config"], ends.near, port, ends.in_near, place / "log"):
        yield [scp, "-q", "-P", str(port), "-i", place / "user", "-o", "StrictHostKeyChecking=no",
               "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"], ends.near


def installed(program: str) -> Path:
    try:
        return found(program, program)
    except SystemExit:
        raise Missing(f"{program} is not installed") from None

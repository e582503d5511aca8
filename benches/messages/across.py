"""The sides of `run.py messages --link`: the first half of the ranks at one end of a link, the others at the other."""

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drivers import Network
from link import CLIENT as NEAR
from link import DEVICE
from link import SERVER as FAR
from peers import BUFFERS, OBJECTS, Implementation, Peers, Side
from sites import Ends, site
from tools import Tools

PORT = 7000  # of raw TCP: nobody else is in the namespace
IMPLEMENTATIONS = (
    Implementation("ours-tcp", "Fishplate, TCP", "ours", ("--transport", "tcp")),
    Implementation("ours-one-stream", "Fishplate, TCP, one stream", "ours", ("--transport", "tcp"),
                   (("limits", "parallel_streams = 1"),)),
    Implementation("ours-soap", "Fishplate, SOAP", "ours", ("--transport", "soap")),
    Implementation("openmpi-tcp", "Open MPI, TCP", "openmpi",
                   ("--prtemca", "prte_if_include", DEVICE, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                    "--mca", "btl_tcp_if_include", DEVICE)),
    Implementation("mpich-tcp", "MPICH, TCP", "mpich", ("-iface", DEVICE),
                   (("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", DEVICE), ("MPIR_CVAR_NOLOCAL", "1"))),
)


def inside(network_words: list[str], host: str, *command: object) -> list[str]:
    """A command at an end; a name of its own lets launchers believe in two hosts."""
    naming = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host]
    return [*network_words, *naming, *map(str, command)]


def limits(one: Implementation) -> str:
    return dict(one.environment).get("limits", "")


@dataclass(eq=False)
class Across(Peers):
    """The peers with two hosts."""

    network: Network
    directory: Path
    # Of our services at both ends, by what a message is to their programs, and the limits of those.
    urls: dict[tuple[str, str], tuple[str, str]]

    def agent(self) -> Path:
        """What launchers call instead of ssh: `agent [-OPTION ...] HOST COMMAND...`."""
        script = self.directory / "agent"
        lines = ["#!/bin/sh", 'while [ "${1#-}" != "$1" ]; do shift; done', "host=$1; shift", "case $host in"]
        for host, words in ((NEAR, self.network.in_client), (FAR, self.network.in_server)):
            lines.append(f'{host}) exec {" ".join(words)} unshare --uts sh -c "hostname $host; $*";;')
        script.write_text("\n".join([*lines, "esac", ""]))
        script.chmod(0o755)
        return script

    def ranks_of(self, one: Implementation, form: str) -> Callable[[int, Path], list[list[str]]]:
        def start(ranks: int, path: Path) -> list[list[str]]:
            halves = ranks - ranks // 2, ranks // 2
            if one.family == "ours":
                hosts = ",".join(f"{url}:{half}" for url, half in zip(self.urls[form, limits(one)], halves, strict=True))
                words = [self.place.binary, "run", "--hosts", hosts, *one.options, f"socket={path}"]
                return [[*self.network.in_client, *map(str, words)]]
            mpiexec = self.interpreter(one.family).parent / "mpiexec"
            hosts = f"{NEAR}:{halves[0]},{FAR}:{halves[1]}"
            words = (["--allow-run-as-root", "--host", hosts, "--map-by", f"ppr:{halves[0]}:node:OVERSUBSCRIBE", "--prtemca", "plm_ssh_agent"]
                     if one.family == "openmpi" else ["-hosts", hosts, "-launcher", "ssh", "-launcher-exec"])
            return [inside(self.network.in_client, NEAR, mpiexec, "-n", ranks, *words, self.agent(), *one.options,
                           *self.rank_program(one.family, form), path)]

        return start

    def sides(self) -> list[Side]:
        raw = Side("raw", "raw TCP", BUFFERS, self.raw_ranks, (), "-", frozenset({"pingpong", "ping*pong"}), 2)
        return [*self.sides_of(IMPLEMENTATIONS), raw]

    def raw_ranks(self, ranks: int, path: Path) -> list[list[str]]:
        program = self.raw()
        return [[*words, str(program), str(path), str(rank), NEAR, str(PORT)]
                for rank, words in enumerate((self.network.in_client, self.network.in_server))]


@contextlib.contextmanager
def across(tools: Tools, peers: Peers, network: Network):
    """Servers at both ends, which offer our programs as ranks."""
    ends, urls = Ends.across(network), {}
    with contextlib.ExitStack() as stack:
        kinds = {limits(one) for one in IMPLEMENTATIONS if one.family == "ours"}
        for form, limited in itertools.product((BUFFERS, OBJECTS), kinds):
            program = " ".join(map(str, peers.rank_program("ours", form)))
            description = f'name = "rank"\ncommand = "{program} [in val socket:string]"\n\n[ranks]\nmax = 64\nlimits = {{ {limited} }}\n'
            urls[form, limited] = tuple(stack.enter_context(site(tools, address, words, description)).url
                               for address, words in ((ends.near, ends.in_near), (ends.far, ends.in_far)))
        yield Across(peers.place, peers.cache, network, tools.scratch, urls)

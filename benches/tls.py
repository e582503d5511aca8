"""A large file and small calls over TLS and plain, in turn: what encryption costs us, and nginx and curl."""

import contextlib
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import machine
from overhead import spread
from server import Server, envelope, self_signed, serving_words
from sites import Ends, nginx
from throughput import CLIENTS, post_script, wrk
from tools import Tools
from transfer import IN, OUT, RELATED, check, prepare, timed

# What both ends prefer: rustls offers it first, and OpenSSL is told to.
CIPHER = "TLS_AES_256_GCM_SHA384"
KINDS = ("plain", "tls")
# Bytes of the file at most: servers keep what they were sent, round by round.
SIZE = 300_000_000
NUMBERS = "<t:x>1</t:x><t:y>2</t:y>"


def measure(tools: Tools, rounds: int, size: int) -> dict:
    here = tools.scratch
    file, message, got = here / "file.bin", here / "message.bin", here / "got.bin"
    prepare(file, message, size)
    certificate, key = self_signed(here)
    with contextlib.ExitStack() as stack:
        def ours(kind: str, *words: object) -> Server:
            place = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=here))
            encrypted = ["--tls-cert", certificate, "--tls-key", key] if kind == "tls" else []
            return stack.enter_context(serving_words(tools.binary, place, [*words, *encrypted]))

        ways: dict[str, dict[str, Callable[[], None]]] = {}
        calls: dict[str, dict[str, Callable[[int], dict]]] = {}
        for kind in KINDS:
            pair = (certificate, key) if kind == "tls" else None
            static = stack.enter_context(nginx(tools, Ends(), here, pair))
            take, give = ours(kind, written(here, "take", IN)), ours(kind, written(here, "give", OUT.format(file=file)))
            matrix = ours(kind, "--builtin", "matrix")
            curl = [tools.curl, "-sSf", "--cacert", certificate, "--tls13-ciphers", CIPHER]
            client = [tools.binary, "call", *(["--cacert", certificate] if kind == "tls" else [])]
            ways[kind] = {
                "fetch": partial(run, [*curl, "-o", got, f"{static}/file.bin"]),
                "in_server": partial(run, [*curl, "-X", "POST", "-T", message, "-H", f"Content-Type: {RELATED}",
                                           "-H", 'SOAPAction: ""', "-H", "Expect:", take.url]),
                "out_server": partial(run, [*curl, "-o", got, "-H", "Content-Type: text/xml; charset=utf-8",
                                            "-H", "Accept: multipart/related", "-H", 'SOAPAction: ""',
                                            "--data-binary", envelope("give", "call"), give.url]),
                "in_client": partial(run, [*client, take.url, f"data:{file}"]),
                "out_client": partial(run, [*client, give.url, f"out:data={got}"]),
            }
            script = here / "add.lua"
            script.write_text(post_script(envelope("matrix", "add", NUMBERS).decode()))
            (here / "get.lua").write_text("")
            (here / "small.txt").write_text("3" * 200)
            calls[kind] = {
                "nginx": partial(wrk, tools.wrk, f"{static}/small.txt", here / "get.lua"),
                "call": partial(wrk, tools.wrk, matrix.url, script),
            }
        agreed(certificate, take.url)
        rows = []
        for _ in range(rounds):
            row: dict = {"load": round(machine.load(), 2)}
            for name in ways["tls"]:
                for kind in KINDS:
                    row[f"{name}_{kind}"] = timed(ways[kind][name], got)
                    if not name.startswith("in"):
                        check(file, got)
            for name in calls["tls"]:
                for kind in KINDS:
                    count, elapsed, _ = calls[kind][name](2)
                    row[f"{name}_{kind}"] = {"seconds": elapsed / count}
            rows.append(row)
        file.unlink()
    return summary(size, rows, [*ways["tls"], *calls["tls"]])


def summary(size: int, rows: list[dict], names: list[str]) -> dict:
    seconds = {name: {kind: [row[f"{name}_{kind}"]["seconds"] for row in rows] for kind in KINDS} for name in names}
    return {
        "bytes": size, "cipher": CIPHER, "clients": CLIENTS, "rounds": rows, "loads": [row["load"] for row in rows],
        "seconds": {name: {kind: {"median": statistics.median(times), "least": min(times)}
                           for kind, times in kinds.items()} for name, kinds in seconds.items()},
        # Of one round each: whatever the machine does falls upon both.
        "tls_to_plain": {name: spread([tls / plain for tls, plain in zip(kinds["tls"], kinds["plain"], strict=True)])
                         for name, kinds in seconds.items()},
    }


def written(place: Path, name: str, description: str) -> Path:
    file = place / f"{name}.toml"
    file.write_text(description)
    return file


def run(command: list[object]) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {command[0]} failed: {done.stderr.decode()[-1000:]}")


def agreed(certificate: Path, url: str) -> None:
    """The cipher that our server takes of those that an OpenSSL offers as it comes: the one that is measured."""
    host = url.split("/")[2]
    said = subprocess.run(["openssl", "s_client", "-connect", host, "-CAfile", certificate, "-brief"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if f"Ciphersuite: {CIPHER}" not in said.stdout + said.stderr:
        raise SystemExit(f"bench: another cipher than {CIPHER} was agreed on: {said.stderr}")

"""`run.py gateway`: PingPong of two ranks that reach each other directly, through their servers, and through their servers over TLS.

What TLS adds to a message is set against its cipher alone: a message is encrypted once, by its sender, and decrypted once, by the
receiver's server.
"""

import contextlib
import os
import re
import subprocess
from typing import Any

import machine
import messages
import tls
from peers import BUFFERS, Peers, Side
from place import ROOT, Place
from server import self_signed, serving_words
from tools import Tools

SIZES = (1, 23, 91, 362, 700, 1000, 2000)  # of doubles squared: 8 B to 32 MB
DIRECT, PLAIN, TLS = WAYS = "direct", "gateway", "gateway, TLS"
RECORD = 16384  # bytes of a TLS record


def measure(tools: Tools, place: Place, rounds: int) -> dict[str, Any]:
    """In each round the ways take turns."""
    peers = Peers(place, ROOT / ".cache/messages")
    program = " ".join(map(str, peers.rank_program("ours", BUFFERS)))
    description = f'name = "rank"\ncommand = "{program} [in val socket:string]"\n\n[ranks]\nmax = 2\n'
    certificate, key = self_signed(tools.scratch)
    # Whom servers, ranks and the command trust.
    trusted = {"SSL_CERT_FILE": str(certificate), "FISHPLATE_CA_FILE": str(certificate)}
    before = machine.load()
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment(trusted))

        def site(name: str, *words: object) -> str:
            folder = tools.scratch / name
            folder.mkdir()
            file = folder / "rank.toml"
            file.write_text(description)
            return stack.enter_context(serving_words(tools.binary, folder, [file, "--allow-private", "--open", *words])).url

        def gateways(name: str, *words: object) -> Side:
            hosts = ",".join(f"{site(f'{name}-{at}', *words)}:1" for at in range(2))
            start = [str(tools.binary), "run", "--hosts", hosts, "--transport", "tcp"]
            return Side(name, name, BUFFERS, lambda ranks, path: [[*start, f"socket={path}"]])

        direct = [str(tools.binary), "run", "-n", "2", "--transport", "tcp", program]
        sides = [
            Side("raw", "raw TCP", BUFFERS, peers.raw_ranks, most_ranks=2),
            Side(DIRECT, DIRECT, BUFFERS, lambda ranks, path: [[*direct, str(path)]]),
            gateways(PLAIN),
            gateways(TLS, "--tls-cert", certificate, "--tls-key", key, "--rank-ca", certificate),
        ]
        lost: dict[str, str] = {}
        plan = messages.Plan(ranks=(2,), rounds=rounds, turn=0.1, longest=5.0)
        cells = messages.measure(sides, 2, 1, plan, [("pingpong", n) for n in SIZES], lost)
    if lost:
        raise SystemExit(f"bench: {lost}")
    return {
        "rounds": rounds, "load": {"least": before, "most": machine.load()}, "cipher": tls.CIPHER, "cipher_bytes_a_second": cipher(),
        "one_way_seconds": {side.name: {str(cell.n): {"least": cell.least / 2, "median": cell.median / 2}
                                        for cell in cells if cell.side is side} for side in sides},
    }  # fmt: skip


@contextlib.contextmanager
def environment(more: dict[str, str]):
    """With these variables, for all that is started."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def cipher() -> float:
    """Bytes that OpenSSL encrypts in a second, record by record."""
    said = subprocess.run(["openssl", "speed", "-elapsed", "-seconds", "2", "-bytes", str(RECORD), "-evp", "aes-256-gcm"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return float(re.search(r"([\d.]+)k\s*$", said.stdout)[1]) * 1000

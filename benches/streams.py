"""Files of many gigabytes through server and client, in and out, in each packaging: how much memory
either takes, how fast it is, and whether every marked block comes back."""

import random
import subprocess
import time
from pathlib import Path

import machine
from server import serving
from tools import Tools

PACKAGINGS = ("base64", "mtom", "swa", "dime")

# The program makes a second name for its file: all that is measured is the way there and back.
SERVICE = 'name = "copy"\ncommand = "/bin/ln [in file deck:raw] [out file copy:raw]"\n'
BLOCK = 1 << 20
SAMPLED = 0.02
SEED = 2003


def measure(tools: Tools, size: int) -> dict:
    file, back = tools.scratch / "deck.bin", tools.scratch / "copy.bin"
    blocks = marked(file, size)
    rows = {}
    for packaging in PACKAGINGS:
        with serving(tools.binary, tools.scratch, "copy", SERVICE) as server:
            command = [tools.binary, "call", server.url, f"deck:{file}", f"out:copy={back}",
                       "--packaging", packaging, "--no-key"]
            began = time.perf_counter()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            client_memory = peak(process)
            seconds = time.perf_counter() - began
            if process.returncode:
                raise SystemExit(f"bench: {packaging}: the client ended with {process.returncode}")
            check(back, size, blocks)
            back.unlink()
            settled(server.data)
            rows[packaging] = {
                "seconds": seconds,
                "server_memory": machine.memory(server.pid)["VmHWM"],
                "client_memory": client_memory,
            }
            print(f"  {packaging}: {rows[packaging]}", flush=True)
    file.unlink()
    return {"bytes": size, "packagings": rows, "load_after": machine.load()}


def settled(data: Path) -> None:
    """Nothing is left of a call, once the server has seen that its answer was taken."""
    for _ in range(100):
        parts = [data / part for part in ("spool", "jobs") if (data / part).exists()]
        left = [path for part in parts for path in part.rglob("*") if path.is_file()]
        if not left:
            return
        time.sleep(0.1)
    raise SystemExit(f"bench: left behind: {left}")


def peak(process: subprocess.Popen) -> int:
    """The most that a process held until it ended. Its own account of it (`ru_maxrss`) begins with
    what the process that started it held."""
    most = 0
    while process.poll() is None:
        most = max(most, machine.memory(process.pid).get("VmHWM", 0))
        time.sleep(SAMPLED)
    return most


def marked(file: Path, size: int) -> dict[int, bytes]:
    """A sparse file with blocks that nobody guesses: at its ends, around 2, 4 and 8 GiB, between."""
    random.seed(SEED)
    places = {0, size - BLOCK} | {edge + shift for edge in (2 << 30, 4 << 30, 8 << 30)
                                  for shift in (-BLOCK, 0)}
    places |= {random.randrange(size - BLOCK) for _ in range(32)}
    blocks: dict[int, bytes] = {}
    with open(file, "wb") as to:
        to.truncate(size)
        for place in sorted(places):
            overlaps = any(abs(place - other) < BLOCK for other in blocks)
            if 0 <= place <= size - BLOCK and not overlaps:
                blocks[place] = random.randbytes(BLOCK)
                to.seek(place)
                to.write(blocks[place])
    return blocks


def check(file: Path, size: int, blocks: dict[int, bytes]) -> None:
    if file.stat().st_size != size:
        raise SystemExit(f"bench: {file.stat().st_size} bytes came back of {size}")
    with open(file, "rb") as of:
        for place, block in blocks.items():
            of.seek(place)
            if of.read(BLOCK) != block:
                raise SystemExit(f"bench: the block at {place} came back changed")

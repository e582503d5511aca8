"""Files of many gigabytes through server and client, in and out, in each packaging: how much memory
either takes, how fast it is, and whether every marked block comes back. First files that are on a disk; then
one that exists nowhere: `stream` makes it, a client passes it on to another, and `checksum` reads it."""

import random
import subprocess
import time
from pathlib import Path

import machine
from server import serving, serving_functions
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
    made = {packaging: passed_on(tools, packaging, size) for packaging in PACKAGINGS}
    return {"bytes": size, "packagings": rows, "made": made, "load_after": machine.load()}


def passed_on(tools: Tools, packaging: str, size: int) -> dict:
    """A file that is never anywhere, from the server through two clients to the server."""
    with serving_functions(tools.binary, tools.scratch, "stream", "matrix") as server:
        above = server.url.rpartition("/")[0]
        began = time.perf_counter()
        giving = subprocess.Popen(
            [tools.binary, "call", f"{above}/stream", f"n={size}", "out:data=-", "--packaging", packaging],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        taking = subprocess.Popen(
            [tools.binary, "call", f"{above}/matrix", "--operation", "checksum", "data:-",
             "--packaging", packaging], stdin=giving.stdout, stdout=subprocess.PIPE, text=True)
        giving.stdout.close()
        client_memory = peak(giving, taking)
        said = taking.stdout.read()
        if giving.returncode or taking.returncode or f"length: {size}\n" not in said:
            raise SystemExit(f"bench: {packaging}: {giving.returncode}, {taking.returncode}: {said}")
        row = {"seconds": time.perf_counter() - began, "client_memory": client_memory,
               "server_memory": machine.memory(server.pid)["VmHWM"]}
    print(f"  {packaging}, made while it is sent: {row}", flush=True)
    return row


def settled(data: Path) -> None:
    """Nothing is left of a call, once the server has seen that its answer was taken."""
    for _ in range(100):
        parts = [data / part for part in ("spool", "jobs") if (data / part).exists()]
        left = [path for part in parts for path in part.rglob("*") if path.is_file()]
        if not left:
            return
        time.sleep(0.1)
    raise SystemExit(f"bench: left behind: {left}")


def peak(*processes: subprocess.Popen) -> int:
    """The most that one of these processes held until they ended. Its own account of it (`ru_maxrss`) begins with
    what the process that started it held."""
    most = 0
    while left := [process for process in processes if process.poll() is None]:
        most = max(most, *(machine.memory(process.pid).get("VmHWM", 0) for process in left))
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

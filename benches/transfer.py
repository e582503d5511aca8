"""A large file through MTOM, each direction alone, against fetching it from a static server."""

import contextlib
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

import machine
from server import Server, envelope, serving
from sites import Ends, nginx
from tools import Tools

BOUNDARY = "bench-of-fishplate"
XOP = 'application/xop+xml; charset=utf-8; type="text/xml"'
RELATED = f'multipart/related; type="application/xop+xml"; start-info="text/xml"; start="<root>"; boundary="{BOUNDARY}"'
INCLUDE = '<xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:data"/>'

# Programs whose own time is that of starting: one ignores its file, one makes a second name for it.
IN = 'name = "take"\ncommand = "/bin/true [in file data:raw]"\n'
OUT = 'name = "give"\ncommand = "/bin/ln {file} [out file data:raw]"\n'


def measure(tools: Tools, rounds: int, size: int) -> dict:
    here = tools.scratch
    file, message, got = here / "file.bin", here / "message.bin", here / "got.bin"
    prepare(file, message, size)
    with contextlib.ExitStack() as stack:
        static = stack.enter_context(nginx(tools, Ends(), here))
        take = stack.enter_context(serving(tools.binary, here, "take", IN))
        give = stack.enter_context(serving(tools.binary, here, "give", OUT.format(file=file)))
        # What a program's own start costs, to be taken off.
        programs = {"in": program_time(tools, take), "out": program_time(tools, give)}
        ways = {
            "fetch": lambda: fetch(tools, f"{static}/file.bin", got),
            "in_server": lambda: upload(tools, take, message),
            "in_client": lambda: client_in(tools, take, file),
            "out_server": lambda: download(tools, give, got),
            "out_client": lambda: client_out(tools, give, got),
        }
        rows = []
        for _ in range(rounds):
            row = {"load": round(machine.load(), 2)}
            for name, way in ways.items():
                row[name] = timed(way, got)
                if name.startswith("out") or name == "fetch":
                    check(file, got)
            rows.append(row)
        memory = {"in": machine.memory(take.pid), "out": machine.memory(give.pid)}
        file.unlink()
    return summary(size, rows, programs, memory)


def summary(size: int, rows: list[dict], programs: dict, memory: dict) -> dict:
    ways = [name for name in rows[0] if name != "load"]
    seconds = {name: [row[name]["seconds"] - programs.get(name[: name.find("_")], 0) for row in rows]
               for name in ways}
    median = {name: statistics.median(times) for name, times in seconds.items()}
    least = {name: min(times) for name, times in seconds.items()}
    return {
        "bytes": size, "rounds": rows, "program_seconds": programs,
        "loads": [row["load"] for row in rows],
        "median_seconds": median, "least_seconds": least,
        "megabytes_a_second": {name: size / time_ / 1e6 for name, time_ in median.items()},
        "ratio_of_medians": {name: median["fetch"] / median[name] for name in ways},
        "ratio_of_least": {name: least["fetch"] / least[name] for name in ways},
        "server_memory": memory,
    }


def prepare(file: Path, message: Path, size: int) -> None:
    """The file, and the whole MTOM message that carries it. Reading them warms the page cache."""
    root = envelope("take", "call", f"<t:data>{INCLUDE}</t:data>")
    with open(file, "wb") as to, open(message, "wb") as whole:
        whole.write(f"--{BOUNDARY}\r\nContent-Type: {XOP}\r\nContent-ID: <root>\r\n"
                    f"Content-Transfer-Encoding: 8bit\r\n\r\n".encode() + root)
        whole.write(f"\r\n--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n"
                    f"Content-ID: <data>\r\nContent-Transfer-Encoding: binary\r\n\r\n".encode())
        for begin in range(0, size, 1 << 20):
            chunk = os.urandom(min(1 << 20, size - begin))
            to.write(chunk)
            whole.write(chunk)
        whole.write(f"\r\n--{BOUNDARY}--\r\n".encode())


def timed(way, got: Path) -> dict:
    """Runs one way, with nothing left to be written from before. It may say what it was of."""
    got.unlink(missing_ok=True)
    os.sync()
    begin = time.monotonic()
    way()
    seconds = time.monotonic() - begin
    if got.exists():
        with open(got) as file:
            os.fsync(file.fileno())
    return {"seconds": seconds, "seconds_until_on_disk": time.monotonic() - begin}


def fetch(tools: Tools, url: str, to: Path) -> None:
    subprocess.run([tools.curl, "-sSf", "-o", to, url], check=True)


def upload(tools: Tools, server: Server, message: Path) -> None:
    answer = subprocess.run(
        [tools.curl, "-sSf", "-X", "POST", "-T", message, "-H", f"Content-Type: {RELATED}",
         "-H", 'SOAPAction: ""', "-H", "Expect:", server.url], check=True, capture_output=True)
    if b"callResponse" not in answer.stdout:
        raise SystemExit(f"bench: not what was asked for: {answer.stdout[:1000]!r}")


def download(tools: Tools, server: Server, to: Path) -> None:
    """What comes is the message: the file between two short parts."""
    subprocess.run(
        [tools.curl, "-sSf", "-o", to, "-H", "Content-Type: text/xml; charset=utf-8",
         "-H", "Accept: multipart/related", "-H", 'SOAPAction: ""',
         "--data-binary", envelope(server.name, "call"), server.url], check=True)


def client_in(tools: Tools, server: Server, file: Path) -> None:
    subprocess.run([tools.binary, "call", server.url, f"data:{file}"], check=True,
                   stdout=subprocess.DEVNULL)


def client_out(tools: Tools, server: Server, to: Path) -> None:
    subprocess.run([tools.binary, "call", server.url, f"out:data={to}"], check=True,
                   stdout=subprocess.DEVNULL)


def check(file: Path, got: Path) -> None:
    """The file is there whole: its length, and its first and last bytes where they belong."""
    size, extra = file.stat().st_size, got.stat().st_size - file.stat().st_size
    with open(file, "rb") as one, open(got, "rb") as other:
        head = other.read(4096)
        at = 0 if extra == 0 else head.find(one.read(64))
        same = at >= 0 and 0 <= extra <= 4096
        for offset in (0, size // 2, size - 4096):
            one.seek(offset)
            other.seek(at + offset)
            same = same and one.read(4096) == other.read(4096)
    if not same:
        raise SystemExit(f"bench: {got} is not the file that was sent")


def program_time(tools: Tools, server: Server) -> float:
    """A call without its file's bytes: the program's start and end, and all that is not transfer."""
    if server.name == "give":
        return least_seconds([tools.bare, 0.5, 1, "/bin/ln", "--version"])
    return least_seconds([tools.bare, 0.5, 1, "/bin/true"])


def least_seconds(command: list) -> float:
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    times = [int(line) for line in re.findall(r"^(\d+)$", done.stdout, re.MULTILINE)]
    return statistics.median(times) / 1e9

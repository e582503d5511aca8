"""What a figure must be seen with: the machine, its load, and the processors each side used."""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> dict:
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "processor": cpu.group(1).strip() if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1),
        "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
    }


def commit() -> str:
    """The commit, and whether the sources were changed since."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=Path(__file__).parent.parent, capture_output=True,
                              text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def file_system(path: Path) -> str:
    done = subprocess.run(["stat", "--file-system", "--format=%T", path],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


def load() -> float:
    return round(os.getloadavg()[0], 2)


def busy() -> float:
    """Processor seconds that the whole machine has spent, of all processes and the kernel."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = (
        int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


def children() -> float:
    """Processor seconds of those we started and waited for."""
    times = os.times()
    return times.children_user + times.children_system


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def used(pids: list[int]) -> float:
    """Processor seconds of these and of the children they waited for."""
    total = 0
    for pid in pids:
        try:
            total += sum(int(field) for field in stat(pid)[11:15])
        except OSError:
            continue
    return total / TICKS


def memory(pid: int) -> dict[str, int]:
    """Bytes resident now (`VmRSS`), of anonymous memory (`RssAnon`), and at most (`VmHWM`)."""
    found = re.findall(r"^(VmRSS|RssAnon|VmHWM):\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(),
                       re.MULTILINE)
    return {name: int(value) * 1024 for name, value in found}


def memory_of(pids: list[int]) -> dict[str, int]:
    """Bytes of these processes: the sum of what is resident (`Rss`), and that with each shared page told once (`Pss`)."""
    total = {"Rss": 0, "Pss": 0}
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        for name, value in re.findall(r"^(Rss|Pss):\s*(\d+) kB", rollup, re.MULTILINE):
            total[name] += int(value) * 1024
    return total


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def processes_with(argument: str) -> list[int]:
    """Those with this argument on their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argument.encode() in words:
                found.append(int(entry))
    return found


def children_of(parents: list[int]) -> set[int]:
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(stat(int(entry))[1])
            except OSError:
                continue
            if parent in parents:
                found.add(int(entry))
    return found

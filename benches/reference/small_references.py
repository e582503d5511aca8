"""A thousand small references into the pool, against as many plain GETs on one connection."""

import re
import statistics
import subprocess

import sites
from sites import Ends
from tools import ROOT, Tools

COUNT, SIZE = 1000, 1000
PROGRAM = ROOT / "target/release/examples/fetch"
TOLD = re.compile(r"GETs ([0-9.]+) s, pooled ([0-9.]+) s")


def section(tools: Tools, quick: bool) -> str:
    if not PROGRAM.exists():
        raise SystemExit(f"bench: {PROGRAM} is not there: cargo build --release -p fishplate-data --example fetch")
    root = tools.scratch / "small"
    root.mkdir()
    rows = []
    with sites.nginx(tools, Ends(), root) as base:
        for round_ in range(3 if quick else 15):
            for number in range(COUNT):
                text = f"{round_} {number} ".encode()
                (root / str(number)).write_bytes(text.ljust(SIZE, b"."))
            done = subprocess.run([PROGRAM, "--small", f"{base}/", str(COUNT)], check=True,
                                  cwd=tools.scratch, stdout=subprocess.PIPE, text=True)
            rows.append(tuple(float(word) for word in TOLD.search(done.stdout).groups()))
    plain, pooled = zip(*rows, strict=True)
    ratios = [pooled / plain for plain, pooled in rows]
    return "\n".join([
        "## A thousand small references", "",
        f"{COUNT} references of {SIZE} bytes from nginx into the pool, verified and named by their "
        f"digests, no program run: {statistics.median(pooled) * 1000:.0f} ms; as many plain GETs on one "
        f"connection, one after the other, kept nowhere: {statistics.median(plain) * 1000:.0f} ms. Ratio "
        f"**{statistics.median(ratios):.2f}** (median of {len(rows)} rounds, {min(ratios):.2f} to "
        f"{max(ratios):.2f}).", ""])

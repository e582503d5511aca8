"""A thousand small references into the pool, against as many plain GETs on one connection."""

import json
import statistics
import subprocess

import sites
from sites import Ends
from tools import ROOT, Tools

COUNT, SIZE = 1000, 1000
PROGRAM = ROOT / "target/release/small-references"


def section(tools: Tools, quick: bool) -> str:
    if not PROGRAM.exists():
        raise SystemExit(f"bench: {PROGRAM} is not there: cargo build --release -p fishplate-benches")
    root = tools.scratch / "small"
    root.mkdir()
    rows = []
    with sites.nginx(tools, Ends(), root) as base:
        for round_ in range(3 if quick else 15):
            for number in range(COUNT):
                text = f"{round_} {number} ".encode()
                (root / str(number)).write_bytes(text.ljust(SIZE, b"."))
            done = subprocess.run([PROGRAM, base, str(COUNT), tools.scratch / f"pool-{round_}"],
                                  check=True, stdout=subprocess.PIPE, text=True)
            rows.append(json.loads(done.stdout))
    plain, pooled = ([row[name] for row in rows] for name in ("plain_seconds", "pooled_seconds"))
    ratios = [row["pooled_seconds"] / row["plain_seconds"] for row in rows]
    return "\n".join([
        "## A thousand small references", "",
        f"{COUNT} references of {SIZE} bytes from nginx into the pool, verified and named by their "
        f"digests, no program run: {statistics.median(pooled) * 1000:.0f} ms; as many plain GETs on one "
        f"connection, one after the other, kept nowhere: {statistics.median(plain) * 1000:.0f} ms. Ratio "
        f"**{statistics.median(ratios):.2f}** (median of {len(rows)} rounds, {min(ratios):.2f} to "
        f"{max(ratios):.2f}).", ""])

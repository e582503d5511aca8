#!/usr/bin/env python3
"""The measurements of BENCHMARKING.md: ratios taken in one run, kept with machine, date and load."""

import argparse
import json
import tempfile
from pathlib import Path

import machine
import overhead
import report
import soak
import streams
import throughput
import transfer
from tools import ROOT, Tools

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

MEASUREMENTS = {
    "overhead": lambda tools, options: overhead.measure(tools, 6 if options.quick else 20),
    "throughput": lambda tools, options: throughput.measure(tools, 3 if options.quick else 6),
    "transfer": lambda tools, options: transfer.measure(tools, 1 if options.quick else 5, options.size),
    "streams": lambda tools, options: streams.measure(tools, 1 << 30 if options.quick else options.stream),
    "soak": lambda tools, options: soak.measure(tools, 10_000 if options.quick else options.calls),
}


def main() -> None:
    options = parse_options()
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.scratch) as scratch:
        tools = Tools(options.binary, options.cache, Path(scratch))
        for name in options.measurement:
            load = machine.load()
            print(f"{name} ... (load {load:.2f})", flush=True)
            found = MEASUREMENTS[name](tools, options)
            found = {"machine": machine.describe(), "load_before": load,
                     "command": f"benches/run.py {name}{' --quick' if options.quick else ''}",
                     "file_system": machine.file_system(Path(scratch)), **found}
            print(report.row(name, found), flush=True)
            if not options.quick:
                (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    if not options.quick:
        report.write(HERE / "BENCHMARKING.md", RESULTS)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurement", nargs="*", default=list(MEASUREMENTS),
                        help=f"some of {', '.join(MEASUREMENTS)}; default: all")
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/fishplate")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/bench")
    parser.add_argument("--scratch", type=Path, default=ROOT / "target",
                        help="where the data directories are made; on the disk that is meant")
    parser.add_argument("--quick", action="store_true",
                        help="fewer rounds; prints and keeps nothing")
    parser.add_argument("--size", type=int, default=10**9, help="bytes of the transfer")
    parser.add_argument("--stream", type=int, default=8 << 30, help="bytes of a stream")
    parser.add_argument("--calls", type=int, default=100_000, help="calls of the soak")
    options = parser.parse_args()
    if unknown := set(options.measurement) - set(MEASUREMENTS):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The measurements of BENCHMARKING.md: ratios taken in one run, kept with machine, date and load."""

import argparse
import json
import platform
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not packages: one is named like a library that matplotlib imports.
sys.path += [str(HERE / name) for name in ("packaging", "reference", "messages", "pipe", "quake", "faces")]
sys.path.append(str(HERE.parent / "interop"))

import dependability  # noqa: E402
import faces  # noqa: E402
import fairness  # noqa: E402
import figure8  # noqa: E402
import gateway  # noqa: E402
import killed  # noqa: E402
import machine  # noqa: E402
import messages  # noqa: E402
import overhead  # noqa: E402
import peers  # noqa: E402
import problem  # noqa: E402
import report  # noqa: E402
import results as packaging  # noqa: E402
import small  # noqa: E402
import soak  # noqa: E402
import streams  # noqa: E402
import throughput  # noqa: E402
import tls  # noqa: E402
import transfer  # noqa: E402
import workflow  # noqa: E402
from place import Place  # noqa: E402
from stacks import STACKS  # noqa: E402
from tools import ROOT, Tools  # noqa: E402

RESULTS = HERE / "results"
PGO = ROOT / f"target/pgo/{platform.machine()}-unknown-linux-gnu/dist"

MEASUREMENTS = {
    "overhead": lambda options, scratch: overhead.measure(tools(options, scratch),
                                                          6 if options.quick else 20),
    "throughput": lambda options, scratch: throughput.measure(tools(options, scratch),
                                                              3 if options.quick else 6),
    "transfer": lambda options, scratch: transfer.measure(tools(options, scratch),
                                                          1 if options.quick else 5, options.size),
    "tls": lambda options, scratch: tls.measure(tools(options, scratch),
                                                1 if options.quick else 12, min(options.size, tls.SIZE)),
    "streams": lambda options, scratch: streams.measure(tools(options, scratch),
                                                        1 << 30 if options.quick else options.stream),
    "soak": lambda options, scratch: soak.measure(tools(options, scratch),
                                                  10_000 if options.quick else options.calls),
    "fairness": lambda options, scratch: fairness.measure(tools(options, scratch),
                                                          200 if options.quick else 1000),
    "workflow": lambda options, scratch: workflow.measure(tools(options, scratch),
                                                          *((2, 100, 1000) if options.quick else (5, 1000, 10_000))),
    **{name: lambda options, scratch, size=size: problem.run(
        tools(options, scratch), place(options, scratch), options.rounds or (1 if options.quick else problem.SIZES[size]), size,
        options.link) for name, size in problem.MEASUREMENTS.items()},
    "pipe-killed": lambda options, scratch: killed.run(tools(options, scratch),
                                                       *(("coarse", 1, 5) if options.quick else ("small", 2, 20))),
    "quake": lambda options, scratch: dependability.measure(tools(options, scratch), options.only, options.quick,
                                                                  RESULTS / "quake.json"),
    "faces": lambda options, scratch: faces.measure(tools(options, scratch), place(options, scratch), options.only, options.quick),
    "gateway": lambda options, scratch: gateway.measure(tools(options, scratch), place(options, scratch), 2 if options.quick else 5),
    "small": lambda options, scratch: small.run(place(options, scratch), 3 if options.quick else 8,
                                                1 if options.quick else 3),
}
# They have tables and plots of their own.
PACKAGING, REFERENCE, MESSAGES = "packaging", "reference", "messages"


def main() -> None:
    options = parse_options()
    RESULTS.mkdir(exist_ok=True)
    # Ended from outside, a measurement still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.scratch) as scratch:
        for name in options.measurement:
            load = machine.load()
            print(f"{name} ... (load {load:.2f})", flush=True)
            if name == PACKAGING:
                packaging.main(options, place(options, Path(scratch)), RESULTS)
                continue
            if name == REFERENCE:
                figure8.main(options, tools(options, Path(scratch)), place(options, Path(scratch)), RESULTS)
                continue
            if name == MESSAGES:
                messages.main(options, tools(options, Path(scratch)), place(options, Path(scratch)), RESULTS)
                continue
            found = MEASUREMENTS[name](options, Path(scratch))
            switches = [f"--{switch}" for switch in ("quick", "link", "pgo") if getattr(options, switch)]
            switches += [f"--rounds {options.rounds}"] if options.rounds else []
            switches += [f"--only {','.join(options.only)}"] if options.only else []
            found = {"machine": machine.describe(), "load_before": load,
                     "command": " ".join(["benches/run.py", name, *switches]),
                     "file_system": machine.file_system(Path(scratch)), **found}
            print(report.row(name, found), flush=True)
            if not options.quick and not (name == "faces" and options.only):
                kept = f"{name}-link" if options.link else name
                (RESULTS / f"{kept}.json").write_text(json.dumps(found, indent=1) + "\n")
                if name == "quake":
                    place(options, Path(scratch)).plot(HERE / "quake/sweeps_plot.py", RESULTS / f"{kept}.json")
    if not options.quick:
        report.write(HERE / "BENCHMARKING.md", RESULTS)


def tools(options: argparse.Namespace, scratch: Path) -> Tools:
    return Tools(options.binary, options.cache, scratch)


def place(options: argparse.Namespace, scratch: Path) -> Place:
    return Place(ROOT / "target/packaging", ROOT / ".cache/interop", options.binary.resolve(), scratch)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    every = [*MEASUREMENTS, PACKAGING, REFERENCE, MESSAGES]
    # `quake` takes hours: it is asked for.
    parser.add_argument("measurement", nargs="*", default=[name for name in every if name != "quake"],
                        help=f"some of {', '.join(every)}; default: all but quake")
    parser.add_argument("--binary", type=Path, help="default: target/release/fishplate")
    parser.add_argument("--pgo", action="store_true",
                        help="the programs that packaging/pgo.sh made, those of the benches too, instead of target/release")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/bench")
    parser.add_argument("--scratch", type=Path, default=ROOT / "target",
                        help="where the data directories are made; on the disk that is meant")
    parser.add_argument("--quick", action="store_true",
                        help="fewer rounds; prints and keeps nothing")
    parser.add_argument("--size", type=int, default=10**9, help="bytes of the transfer")
    parser.add_argument("--stream", type=int, default=8 << 30, help="bytes of a stream")
    parser.add_argument("--calls", type=int, default=100_000, help="calls of the soak")
    parser.add_argument("--link", action="store_true",
                        help="packaging, reference, messages: across a link of 1 Gbit/s and 20 ms instead of loopback; "
                             "pipe-small, pipe-large: across two, of 20 ms and 10 ms")
    parser.add_argument("--rounds", type=int, help="pipe-small, pipe-large: how many; default: "
                        + ", ".join(f"{rounds} of {size}" for size, rounds in problem.SIZES.items()))
    parser.add_argument("--only", type=lambda text: text.split(","), default=[],
                        help=f"packaging: some of {','.join(stack.name for stack in STACKS)}; "
                             f"quake: some of {','.join(dependability.PARTS)}; "
                             f"faces: some of {','.join(faces.PARTS)}; "
                             f"messages: some of {','.join(peers.NAMES)}")
    parser.add_argument("--ranks", type=lambda text: tuple(map(int, text.split(","))), default=(),
                        help="messages: how many ranks; default: 2 to 8, one after the other")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=(),
                        help="packaging: n of the n by n matrices; reference: bytes of the files")
    options = parser.parse_args()
    options.binary = options.binary or (PGO if options.pgo else ROOT / "target/release") / "fishplate"
    if unknown := set(options.measurement) - set(every):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    if options.link and (local := set(options.measurement) - {PACKAGING, REFERENCE, MESSAGES, *problem.MEASUREMENTS}):
        parser.error(f"these have no link: {', '.join(sorted(local))}")
    if unknown := set(options.only) - {stack.name for stack in STACKS} - set(peers.NAMES) - {*dependability.PARTS, *faces.PARTS}:
        parser.error(f"no such stack or side: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()

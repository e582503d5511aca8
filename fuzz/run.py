#!/usr/bin/env python3
"""Fuzzes every reader, each for some seconds: `fuzz/run.py --seconds 3600`.

libFuzzer with coverage, built by the stable compiler; no other tool is needed. What is found is kept in
fuzz/found/TARGET; to see it again: `target/fuzz/PLATFORM/release/TARGET FILE`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "target/fuzz"
# What cargo-fuzz passes, but for the sanitizers, which only a nightly compiler has.
FLAGS = ("--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 "
         "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table "
         "-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks")
MEMORY = 2048  # MiB


def main() -> int:
    targets = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=targets, help=f"some of {', '.join(targets)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target [default: 60]")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(targets):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    programs = build()
    failed = [target for target in options.targets if not fuzzed(programs / target, options.seconds)]
    print(f"fuzz: {len(options.targets) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def build() -> Path:
    """The programs. Their platform is named, so that what runs while they are built is not fuzzed."""
    cargo = os.environ.get("CARGO", "cargo")
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    platform = re.search(r"^host: (.+)$", told, re.MULTILINE)[1]
    subprocess.run([cargo, "build", "--quiet", "--release", "--target", platform, "--target-dir", BUILT],
                   cwd=HERE, env={**os.environ, "RUSTFLAGS": FLAGS}, check=True)
    return BUILT / platform / "release"


def fuzzed(program: Path, seconds: int) -> bool:
    """Whether nothing was found. What a run learns is thrown away, but for findings."""
    target = program.name
    found, corpus = HERE / "found" / target, HERE / "corpus" / target
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as learnt:
        command = [program, f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY}", "-timeout=20",
                   f"-artifact_prefix={found}/", learnt, *([corpus] if corpus.is_dir() else [])]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
    runs = re.search(r"Done (\d+) runs", done.stderr)
    if done.returncode == 0 and runs:
        print(f"  {target}: {int(runs[1]):,} runs, nothing found", flush=True)
        return True
    tail = "\n".join(done.stderr.splitlines()[-30:])
    print(f"  {target}: ended with {done.returncode}; see {found.relative_to(HERE.parent)}\n{tail}",
          file=sys.stderr, flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())

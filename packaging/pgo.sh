#!/usr/bin/env bash
# pgo.sh TARGET PACKAGE...: profile-guided optimization. The packages' programs are built with counters, a training run
# fills these (packaging/train.py, which needs fishplate and fishplate-benches), and all is built again with what they
# say. The programs are in target/pgo/TARGET/dist then. Twice the time of a build, and a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
shift
directory=$PWD/target/pgo
counters=$directory/counters
export CARGO_TARGET_DIR=$directory

# With --target, so that what runs while something is built is built without these flags.
build() {
  RUSTFLAGS=$1 "${CARGO:-cargo}" build --profile dist --target "$target" "${packages[@]}"
}

packages=("${@/#/--package=}")
profdata=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/llvm-profdata
[ -x "$profdata" ] || {
  echo 'installing llvm-tools (rustup), for profile-guided optimization'
  rustup component add llvm-tools
}

build "-Cprofile-generate=$counters"
rm -rf "$counters"
python3 packaging/train.py "$directory/$target/dist"
"$profdata" merge -o "$directory/merged" "$counters"
# Named by what is in it: cargo looks at flags, not into files.
profile=$directory/$(sha256sum "$directory/merged" | cut -c1-16).profdata
mv "$directory/merged" "$profile"
build "-Cprofile-use=$profile"

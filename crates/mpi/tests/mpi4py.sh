#!/bin/bash
# mpi4py.sh DIRECTORY RANKS...: mpi4py's own tests on the library of this directory, at each of these numbers of ranks.
# mpi4py is compiled for the ABI with the mpicc of the wheel mpich, once, into .cache/mpi4py; then that wheel is not used.
set -eu -o pipefail

version=4.1.2
mpich=5.0.2
root=$(cd "$(dirname "$0")/../../.." && pwd)
binaries=$(cd "$1" && pwd)
shift
cache=$root/.cache/mpi4py
python=$cache/venv/bin/python

if [ ! -e "$cache/built-$version" ]; then
  echo "compiling mpi4py $version (pip) into .cache/mpi4py, for make mpi4py"
  mkdir -p "$cache"
  "${PYTHON:-python3}" -m venv "$cache/venv"
  "$python" -m pip install -q "mpich==$mpich" numpy
  PATH=$cache/venv/bin:$PATH MPICC=mpicc_abi MPI4PY_BUILD_MPIABI=1 \
    "$python" -m pip install -q --no-binary mpi4py "mpi4py==$version"
  "$python" -m pip download -q --no-deps --no-binary :all: -d "$cache" "mpi4py==$version"
  tar -C "$cache" -xzf "$cache/mpi4py-$version.tar.gz"
  touch "$cache/built-$version"
fi

# What needs one-sided communication, files or spawning: whole modules, then classes and single tests of others.
excluded=()
for module in dynproc file io rma subclass spawn util_pool util_sync win; do excluded+=(-e "test_$module"); done
for test in TestErrhandlerFile TestMessageRMA testSafeFreeCreated; do excluded+=(-x "$test"); done

failed=0
for ranks in "$@"; do
  log=$cache/ranks-$ranks.log
  if ! (cd "$cache/mpi4py-$version" && timeout 1800 "$binaries/fishplate" run -n "$ranks" \
    "$python" test/main.py -v "${excluded[@]}") >"$log" 2>&1; then
    failed=1
    grep -aE '\.\.\. (ERROR|FAIL)$' "$log" | sort | uniq -c || true
    echo "at $ranks ranks tests failed: $log"
  fi
  # Each rank says so of itself.
  echo "$ranks ranks: $(grep -aE '^Ran |^OK|^FAILED' "$log" | sed 's/ in .*//' | sort | uniq -c | tr -s ' \n' ' ')"
done
exit $failed

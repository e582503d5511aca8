#!/bin/bash
# mpi4py.sh DIRECTORY RANKS[:TRANSPORT]...: mpi4py's own tests on the library of this directory, and a table of how they went.
# `fishplate mpi4py` compiles it, once, into .cache/mpi4py.
set -eu -o pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
binaries=$(cd "$1" && pwd)
shift
cache=$root/.cache/mpi4py
python=$cache/venv/bin/python

if [ ! -e "$cache/venv/complete" ]; then
  "${PYTHON:-python3}" -m venv "$cache/venv"
  "$python" -m pip install -q numpy
  touch "$cache/venv/complete"
fi
VIRTUAL_ENV=$cache/venv "$binaries/fishplate" mpi4py
version=$("$python" -c 'import importlib.metadata as packages; print(packages.version("mpi4py"))')
if [ ! -e "$cache/mpi4py-$version/test" ]; then
  "$python" -m pip download -q --no-deps --no-binary mpi4py -d "$cache" "mpi4py==$version"
  tar -C "$cache" -xzf "$cache/mpi4py-$version.tar.gz"
fi
# It looks whether there are files, and knows one of two exceptions that say that there are none; as a whole it would be left out.
sed -i 's/^except NotImplementedError:$/except (NotImplementedError, MPI.Exception):/' "$cache/mpi4py-$version/test/test_subclass.py"

# What needs one-sided communication, files or spawning: whole modules, then classes and single tests of others.
excluded=()
for module in dynproc file io rma spawn util_sync win; do excluded+=(-e "test_$module"); done
for test in TestErrhandlerFile TestMessageRMA testSafeFreeCreated TestMyWin TestMyFile TestProcessPool; do excluded+=(-x "$test"); done

row='%5s  %-13s  %5s  %6s  %6s  %7s  %7s\n'
printf "$row" ranks transport cases failed errors skipped seconds
status=0
for what in "$@"; do
  ranks=${what%%:*}
  transport=${what#"$ranks"}
  transport=${transport#:}
  transport=${transport:-shared-memory}
  log=$cache/ranks-$ranks-$transport.log
  begun=$SECONDS
  ended=0
  (cd "$cache/mpi4py-$version" && timeout 1800 "$binaries/fishplate" run --transport "$transport" -n "$ranks" \
    "$python" test/main.py -v "${excluded[@]}") >"$log" 2>&1 || ended=$?
  # Each rank says it of itself: the most of any of them.
  most() { (grep -aoE "$1[0-9]+" "$log" || echo 0) | grep -oE '[0-9]+$' | sort -n | tail -1; }
  printf "$row" "$ranks" "$transport" "$(most '^Ran ')" "$(most 'failures=')" "$(most 'errors=')" "$(most 'skipped=')" \
    $((SECONDS - begun))
  if [ "$ended" != 0 ]; then
    status=1
    echo "exit code $ended: $log"
    grep -aE '\.\.\. (ERROR|FAIL)$' "$log" | sort | uniq -c || true
  fi
done
exit $status
